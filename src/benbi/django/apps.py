"""What Django does with benbi at its start: it finds the tasks, and migrates with the rest."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate
from django.utils.module_loading import autodiscover_modules

from benbi.django import app
from benbi.errors import ConfigurationError


class BenbiConfig(AppConfig):
    name = "benbi.django"
    label = "benbi"

    def ready(self) -> None:
        autodiscover_modules("tasks")
        post_migrate.connect(_migrate, sender=self)


def _migrate(using: str, **_: Any) -> None:
    """Makes and migrates the tables of benbi beside Django's, in tests as well."""
    if using != app.alias:
        return
    # Tests put another database in the place of this one, and one that is open can not be dropped.
    app.close_sync()
    try:
        app.store.prepare_sync()
    except ConfigurationError:
        # A database that benbi can not use (one of tests, in memory): said where it is used.
        return
