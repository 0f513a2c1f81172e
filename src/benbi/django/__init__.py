"""benbi in a Django project: ``"benbi.django"`` in INSTALLED_APPS, and ``app`` for its tasks.

::

    # shop/tasks.py
    from benbi.django import app

    @app.task
    def ship(order: int) -> None: ...

What is enqueued within ``transaction.atomic()`` is stored with the rest, or not at all.
``manage.py benbi work`` runs the jobs, ``manage.py migrate`` makes the tables. Settings::

    BENBI = {"DATABASE": "default", "SLOTS": 10}  # and the other settings of Benbi, in capitals

``DATABASE`` is the alias of the database in which the jobs are kept; ``URL`` names another place.
"""

from __future__ import annotations

from django.conf import settings

from benbi.django.project import DjangoBenbi, arguments_from

__all__ = ["DjangoBenbi", "app"]

app = DjangoBenbi(**arguments_from(getattr(settings, "BENBI", {})))
