"""The pytest plugin of benbi: the fixture ``benbi_app``, and the setting it reads.

pytest loads this module in every project of an environment where benbi is installed. So it stands
beside the package, and imports benbi only where the fixture is used.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from benbi import Benbi
    from benbi.testing import TestApp


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("benbi_app", "the app that the fixture benbi_app tests: module:app", default="")


@pytest.fixture
def benbi_app(pytestconfig: pytest.Config) -> Iterator[TestApp]:
    """The app of the setting ``benbi_app`` on a new database in memory and a clock of its own.

    Where the app is made by a function, define a fixture of this name in conftest.py:
    ``with benbi.testing.fresh(make_app()) as app: yield app``.
    """
    from benbi.testing import fresh

    with fresh(_loaded(pytestconfig)) as app:
        yield app


def _loaded(config: pytest.Config) -> Benbi:
    from benbi import Benbi

    target = str(config.getini("benbi_app"))
    module, colon, name = target.partition(":")
    if not module or not colon or not name:
        raise pytest.UsageError(
            'the fixture benbi_app needs its app: set benbi_app = "module:app" in the settings of '
            f"pytest, or define the fixture in conftest.py (benbi_app is {target!r})"
        )
    root = str(config.rootpath)
    if root not in sys.path:
        # As `benbi work module:app` puts the working directory there.
        sys.path.insert(0, root)
    try:
        app = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise pytest.UsageError(f"benbi_app = {target!r}: {error}") from error
    if not isinstance(app, Benbi):
        raise pytest.UsageError(f"benbi_app = {target!r} is {app!r}, and no Benbi")
    return app
