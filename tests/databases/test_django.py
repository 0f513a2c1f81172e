"""A project of Django's: its jobs go with its transactions, and its own command runs them."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from benbi import Benbi, ConfigurationError, JobNotFound
from tests.support import postgresql
from tests.support.clients import django_connection
from tests.support.polling import wait_until

PROJECT = Path(__file__).with_name("project")
SOON = 50.0

pytestmark = [pytest.mark.timeout(120), pytest.mark.xdist_group("postgresql")]


class Project:
    """The project on one database."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.app = Benbi(url)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("BENBI_")}
        self._environment = {**kept, "SHOP_DATABASE": url, "PYTHONWARNINGS": "error"}

    def command(self, *words: str) -> list[str]:
        return [sys.executable, str(PROJECT / "manage.py"), *words]

    def manage(self, *words: str, code: int = 0) -> str:
        """What ``manage.py …`` prints, started from elsewhere."""
        done = subprocess.run(
            self.command(*words),
            env=self._environment,
            cwd="/",
            capture_output=True,
            text=True,
            timeout=SOON,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout if not code and words[0] != "test" else done.stdout + done.stderr

    @contextmanager
    def working(self, *words: str) -> Iterator[None]:
        """``manage.py benbi work`` until the end of the block, where it drains."""
        worker = subprocess.Popen(
            self.command("benbi", "work", *words), env=self._environment, cwd="/"
        )
        try:
            yield
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(SOON) == 0
        finally:
            worker.kill()
            worker.wait()

    def place(self, *words: str) -> list[str]:
        """The jobs that ship orders."""
        return self.manage("place", *words).split()

    def shipped(self, job: str) -> int:
        """How many orders a job has shipped, once it has ended."""
        return self.app.handle(job).result_sync(timeout=SOON)


@contextmanager
def migrated(url: str) -> Iterator[Project]:
    project = Project(url)
    project.manage("migrate", "--verbosity", "0")
    yield project
    project.app.close_sync()


@pytest.fixture(scope="module")
def project() -> Iterator[Project]:
    with postgresql.own_database() as url, migrated(url) as project:
        yield project


def test_jobs_run_when_and_if_their_transactions_were_committed(project: Project) -> None:
    """By processes under a supervisor, and by children of theirs: they know the project."""
    (gone,) = project.place("ship=1", "--roll-back")
    jobs = project.place("ship=2", "ship_in_a_loop=3", "ship_in_a_child=4")
    with project.working("--processes", "2"):
        assert [project.shipped(job) for job in jobs] == [1, 1, 1]
    with pytest.raises(JobNotFound):
        project.app.get_sync(gone)
    assert sorted(job.id for job in project.app.jobs_sync()) == sorted(jobs)


def test_the_same_on_a_file(tmp_path: Path) -> None:
    with migrated(f"sqlite:///{tmp_path}/shop.db") as project, project.working():
        (gone,) = project.place("ship=1", "--roll-back")
        jobs = project.place("ship=2", "ship_in_a_loop=3")
        assert [project.shipped(job) for job in jobs] == [1, 1]
        with pytest.raises(JobNotFound):
            project.app.get_sync(gone)


def test_a_worker_gets_over_the_loss_of_djangos_connections(project: Project) -> None:
    """A request would begin with a new one; a worker has none."""
    theirs = (
        "FROM pg_stat_activity WHERE datname = current_database()"
        " AND application_name <> 'benbi' AND pid <> pg_backend_pid()"
    )
    with project.working(), psycopg.connect(project.url, autocommit=True) as look:
        jobs = project.place("ship=5", "ship_in_a_loop=6")
        assert [project.shipped(job) for job in jobs] == [1, 1]
        ended = look.execute(f"SELECT pg_terminate_backend(pid) {theirs}").fetchall()
        assert len(ended) >= 2, "that of a thread, and that of the loop"
        wait_until(lambda: look.execute(f"SELECT 1 {theirs}").fetchone() is None, SOON)
        jobs = project.place("ship=7", "ship_in_a_loop=8")
        assert [project.shipped(job) for job in jobs] == [1, 1]


def test_the_rest_of_the_command_line_is_there(project: Project) -> None:
    job = project.manage("benbi", "enqueue", "ship", "number=9").strip()
    found = json.loads(project.manage("benbi", "jobs", "list", "--state", "pending", "--json"))
    assert [one["id"] for one in found["jobs"]] == [job]
    assert project.manage("benbi", "work", "--once") == ""
    assert project.app.get_sync(job).state == "completed"
    assert "no job" in project.manage("benbi", "jobs", "show", "none", code=1)


def test_djangos_own_tests(project: Project) -> None:
    """Each test's jobs go with its transaction, and nothing keeps the test database open."""
    assert "Ran 5 tests" in project.manage("test", "shop", "--noinput")


# The settings.


@pytest.fixture
def reading() -> Any:
    """The module that reads Django's settings, which have to be there before it is imported."""
    django_connection("postgresql://shop@db.internal/shop")
    return importlib.import_module("benbi.django.project")


def test_settings_are_the_arguments_of_the_app(reading: Any) -> None:
    assert reading.arguments_from({}) == {"alias": "default", "url": None}
    assert reading.arguments_from({"DATABASE": "jobs", "SLOTS": 3}) == {
        "alias": "jobs",
        "url": None,
        "slots": 3,
    }
    # The jobs are elsewhere: no transaction of Django's is theirs, unless both are named.
    assert reading.arguments_from({"URL": "jobs.db"}) == {"alias": None, "url": "jobs.db"}
    both = {"URL": "postgresql://server/shop", "DATABASE": "default"}
    assert reading.arguments_from(both) == {"alias": "default", "url": "postgresql://server/shop"}
    for unknown in ("SLOT", "slots"):
        with pytest.raises(ConfigurationError, match=f"{unknown}.*DATABASE, URL, SLOTS"):
            reading.arguments_from({unknown: 3})


def test_the_url_is_that_of_the_alias(reading: Any) -> None:
    connection = django_connection("postgresql://an%20na:p%40ss@db.internal:6432/shop")
    connection.settings_dict["OPTIONS"] = {"sslmode": "require", "pool": True}
    database = reading.DjangoBenbi(connection.alias).database
    assert database.url == "postgresql://an na@db.internal:6432/shop"
    assert conninfo_to_dict(database.address) == {
        "sslmode": "require",
        "dbname": "shop",
        "user": "an na",
        "password": "p@ss",
        "host": "db.internal",
        "port": "6432",
    }
    with pytest.raises(ConfigurationError, match="no 'elsewhere' in DATABASES"):
        reading.url_of("elsewhere")
    memory = django_connection("sqlite:///file:memorydb_default?mode=memory&cache=shared")
    memory.settings_dict["NAME"] = "file:memorydb_default?mode=memory&cache=shared"
    with pytest.raises(ConfigurationError, match=r"in memory.*benbi_app"):
        reading.url_of(memory.alias)
    memory.vendor = "mysql"
    with pytest.raises(ConfigurationError, match="is mysql: benbi needs PostgreSQL or SQLite"):
        reading.url_of(memory.alias)
