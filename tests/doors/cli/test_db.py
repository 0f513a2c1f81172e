"""``benbi db``: check and migrate."""

from __future__ import annotations

import os
import sqlite3

import pytest

from tests.doors.cli.command import Command


def test_migrate_creates_the_tables_once(benbi: Command) -> None:
    first = benbi.read("db", "migrate")["applied"]
    assert first
    assert all(name[:4].isdigit() for name in first)
    assert benbi.read("db", "migrate") == {"applied": []}
    assert benbi.run("db", "migrate").stdout == "nothing to do\n"


def test_check_names_the_version_of_sqlite(benbi: Command) -> None:
    benbi.read("db", "migrate")
    done = benbi.run("db", "check")
    assert done.returncode == 0
    assert sqlite3.sqlite_version in done.stdout
    document = benbi.read("db", "check")
    assert document["healthy"] is True
    assert {"level", "text"} == set(document["findings"][0])


def test_check_finds_damage(benbi: Command) -> None:
    benbi.read("db", "migrate")
    file = benbi.folder / "jobs.db"
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    (page,) = connection.execute(
        "SELECT rootpage FROM sqlite_schema WHERE name = 'benbi_jobs'"
    ).fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    connection.close()
    with file.open("r+b") as raw:
        raw.seek((page - 1) * size)
        raw.write(os.urandom(size))
    done = benbi.run("db", "check")
    assert done.returncode in (1, 3)
    assert "Traceback" not in done.stderr
    assert "healthy" not in done.stdout


def test_a_database_of_newer_code_is_refused(benbi: Command) -> None:
    benbi.read("db", "migrate")
    connection = sqlite3.connect(benbi.folder / "jobs.db")
    connection.execute("UPDATE benbi_migrations SET needs_code = 99")
    connection.commit()
    connection.close()
    done = benbi.run("jobs", "list")
    assert done.returncode == 3
    (line,) = done.stderr.splitlines()
    assert "pip install -U benbi" in line
    checked = benbi.run("db", "check")
    assert checked.returncode == 1
    assert "newer code" in checked.stdout


def test_check_of_a_database_before_its_first_use_changes_nothing(benbi: Command) -> None:
    sqlite3.connect(benbi.folder / "jobs.db").close()
    done = benbi.run("db", "check", "--json")
    assert "not applied yet" in done.stdout
    assert "applied 0001" in benbi.run("db", "migrate").stdout


@pytest.mark.parametrize("words", [["db", "check"], ["db", "migrate"], ["jobs", "list"]])
def test_a_file_that_is_no_database_is_left_alone(benbi: Command, words: list[str]) -> None:
    file = benbi.folder / "jobs.db"
    file.write_bytes(b"dear diary\n" * 500)
    done = benbi.run(*words)
    assert done.returncode == 3
    assert "not a usable SQLite database" in done.stderr
    assert "Traceback" not in done.stderr
    assert file.read_bytes() == b"dear diary\n" * 500


@pytest.mark.parametrize("words", [["jobs", "list"], ["db", "check"], ["enqueue", "add", "a=1"]])
def test_a_mistyped_database_is_not_created(benbi: Command, words: list[str]) -> None:
    done = benbi.run(*words, "--url", "jobz.db")
    assert done.returncode == 3
    (line,) = done.stderr.splitlines()
    assert str(benbi.folder / "jobz.db") in line
    assert "benbi db migrate" in line
    assert not (benbi.folder / "jobz.db").exists()
