"""The app of a Django project in a process that Django did not start: ``manage.py benbi work`` runs
``benbi.django.standalone:app``. Needs DJANGO_SETTINGS_MODULE."""

from __future__ import annotations

import django
from django.apps import apps

if not apps.ready:
    django.setup()

from benbi.django import app

__all__ = ["app"]
