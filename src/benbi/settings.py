"""The settings of an app, refused where they can not be meant."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from benbi.errors import ConfigurationError

DEFAULT_SLOTS = 20
DEFAULT_GRACE = 30.0
SHORTEST_HEARTBEAT = 0.5
SMALLEST_PAYLOAD = 1024
DEFAULT_SCHEMA = "benbi"
POSTGRESQL = ("postgresql://", "postgres://")
# 1 GiB.
DEFAULT_MAX_ARTIFACT = 1_073_741_824


class Setting(NamedTuple):
    """A setting, its value, and the source of it: "code", "default", or a variable's name."""

    name: str
    value: Any
    source: str


def url_setting(given: str | None, url: str) -> Setting:
    """Where the jobs are; ``given``: what the code says."""
    if given:
        return Setting("url", url, "code")
    return Setting("url", url, "BENBI_URL" if os.environ.get("BENBI_URL") else "default")


def artifacts_setting(given: object, folder: object) -> Setting:
    """Where files are kept; ``given``: what the code says."""
    value = None if folder is None else str(folder)
    if given:
        return Setting("artifacts", value, "code")
    named = "BENBI_ARTIFACTS" if os.environ.get("BENBI_ARTIFACTS") else "default"
    return Setting("artifacts", value, named)


def listen_url_setting(given: str | None, url: str | None) -> Setting:
    """Where LISTEN connects to; ``given``: what the code says, ``url``: what came of it."""
    if given:
        return Setting("listen_url", url, "code")
    return Setting("listen_url", url, "default" if url is None else "BENBI_LISTEN_URL")


def check_settings(
    url: object, slots: object, heartbeat_timeout: object, max_payload: object
) -> None:
    """Raises ConfigurationError, which names the setting and what it may be."""
    if not isinstance(url, str | None):
        raise ConfigurationError(f"Benbi({url!r}): a URL or a path, as text")
    if not isinstance(slots, int) or isinstance(slots, bool) or slots < 1:
        raise ConfigurationError(f"slots={slots!r}: a whole number, 1 or more")
    if not isinstance(heartbeat_timeout, int | float) or heartbeat_timeout < SHORTEST_HEARTBEAT:
        raise ConfigurationError(
            f"heartbeat_timeout={heartbeat_timeout!r}: {SHORTEST_HEARTBEAT} seconds or more"
        )
    if not isinstance(max_payload, int) or max_payload < SMALLEST_PAYLOAD:
        raise ConfigurationError(f"max_payload={max_payload!r}: {SMALLEST_PAYLOAD} bytes or more")


def check_artifacts(artifacts: object, max_artifact: object) -> None:
    """Raises ConfigurationError, which names the setting and what it may be."""
    if not isinstance(artifacts, str | os.PathLike | None):
        raise ConfigurationError(f"artifacts={artifacts!r}: a folder, as text or a Path")
    if not isinstance(max_artifact, int) or isinstance(max_artifact, bool) or max_artifact < 1:
        raise ConfigurationError(f"max_artifact={max_artifact!r}: 1 byte or more")


def check_listen_url(listen_url: object) -> None:
    """Raises ConfigurationError, which names the setting and what it may be."""
    if listen_url is None:
        return
    if not isinstance(listen_url, str) or not listen_url.startswith(POSTGRESQL):
        raise ConfigurationError(f"listen_url={listen_url!r}: postgresql://user@host/database")
