"""The settings of the project; the database is the one of the test."""

import os
from urllib.parse import urlsplit

_place = urlsplit(os.environ["SHOP_DATABASE"])

INSTALLED_APPS = ["benbi.django", "shop"]
SECRET_KEY = "only for tests"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
if _place.scheme == "postgresql":
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": _place.path[1:],
            "USER": _place.username,
            "PASSWORD": _place.password or "",
            "HOST": _place.hostname,
            "PORT": _place.port,
            "CONN_MAX_AGE": 600,
            "OPTIONS": {"server_side_binding": True, "connect_timeout": 5},
        }
    }
else:
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": _place.path,
            "OPTIONS": {"transaction_mode": "IMMEDIATE"},
        }
    }
BENBI = {"SLOTS": 4, "HEARTBEAT_TIMEOUT": 2.0}
