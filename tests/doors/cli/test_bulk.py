"""``benbi jobs cancel`` and ``retry`` with several ids, and with filters instead of ids."""

from __future__ import annotations

import json
import shlex

import pytest

from tests.doors.cli.command import Command
from tests.doors.cli.test_jobs import JOB_FIELDS, MISSING


def later(shop: Command, count: int, owner: str, queue: str = "loft") -> list[str]:
    """Jobs that no worker runs, also where they are retried: none listens to their queue."""
    words = ("add", "a=1", "--delay", "1h", "--owner", owner, "--queue", queue)
    return [shop.enqueue(*words) for _ in range(count)]


def states(shop: Command, *words: str) -> list[str]:
    return [job["state"] for job in shop.read("jobs", "list", *words)["jobs"]]


def test_several_ids_are_moved_each(shop: Command) -> None:
    one, two = later(shop, 2, "several")
    done = shop.run("jobs", "cancel", one, two, one, "--reason", "no need")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "".join(f"{job_id}  add  canceled (no need)\n" for job_id in (one, two))
    told = shop.read("jobs", "retry", one, two)
    assert [job["id"] for job in told["jobs"]] == [one, two]
    assert all(set(job) == JOB_FIELDS for job in told["jobs"])
    assert told["refused"] == []


def test_what_can_not_be_done_is_told_and_the_rest_is_done(shop: Command) -> None:
    one, two, three = later(shop, 3, "partly")
    shop.run("jobs", "cancel", one, three)
    done = shop.run("jobs", "retry", one, two, MISSING, three)
    assert done.returncode == 1
    assert [line.split()[0] for line in done.stdout.splitlines()] == [one, three]
    refused, missing = done.stderr.splitlines()
    assert refused.startswith(f"benbi: {two}: a job that is scheduled can not be retried")
    assert missing == f"benbi: no job {MISSING!r}"
    asked = shop.run("jobs", "cancel", two, MISSING, "--json")
    assert asked.returncode == 1
    told = json.loads(asked.stdout)
    assert [job["id"] for job in told["jobs"]] == [two]
    assert told["refused"] == [{"id": MISSING, "message": f"no job {MISSING!r}"}]


def test_one_id_says_what_it_always_said(shop: Command) -> None:
    (one,) = later(shop, 1, "alone")
    done = shop.run("jobs", "cancel", one)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{one}  add  canceled (requested)\n"
    assert set(shop.read("jobs", "cancel", one)) == JOB_FIELDS
    again = shop.read("jobs", "retry", one)
    assert (again["id"], again["reason"]) == (one, "by_hand")
    refused = shop.run("jobs", "retry", MISSING)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == f"benbi: no job {MISSING!r}\n"


def test_filters_need_a_yes(shop: Command) -> None:
    owner = ("--owner", "two  words")
    ids = later(shop, 3, owner[1]) + later(shop, 1, owner[1], "shed")
    wanted = ("jobs", "cancel", *owner, "--queue", "loft", "--reason", "it's over")
    asked = shop.run(*wanted)
    assert (asked.returncode, asked.stdout) == (1, "")
    count, command = asked.stderr.splitlines()
    assert count.startswith("benbi: 3 jobs would be canceled, or asked to stop.")
    assert set(states(shop, *owner)) == {"scheduled"}
    name, *typed = shlex.split(command)
    assert name == "benbi"

    told = shop.run(*wanted, "--json")
    assert (told.returncode, told.stderr) == (1, "")
    assert json.loads(told.stdout) == {"changed": 0, "would_change": 3, "command": command}

    done = shop.run(*typed)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "3 jobs canceled, or asked to stop\n"
    assert sorted(states(shop, *owner)) == ["canceled"] * 3 + ["scheduled"]
    assert shop.read("jobs", "show", ids[0])["reason"] == "it's over"
    assert shop.read("jobs", "cancel", *owner, "--yes") == {"changed": 1}


def test_retry_takes_filters_too(shop: Command) -> None:
    ids = later(shop, 2, "again")
    shop.run("jobs", "cancel", "--owner", "again", "--yes")
    asked = shop.run("jobs", "retry", "--owner", "again", "--state", "canceled", "--fresh")
    assert asked.returncode == 1
    assert asked.stderr.startswith("benbi: 2 jobs would be retried.")
    done = shop.run(*shlex.split(asked.stderr.splitlines()[1])[1:])
    assert (done.returncode, done.stdout) == (0, "2 jobs retried\n")
    assert [shop.read("jobs", "show", job_id)["generation"] for job_id in ids] == [2, 2]


def test_the_command_names_the_database_that_was_named(benbi: Command) -> None:
    assert benbi.run("db", "migrate", "--url", "other.db").returncode == 0
    asked = benbi.run("jobs", "retry", "--owner=", "--task=-x", "--url", "other.db")
    said, command = asked.stderr.splitlines()
    assert said.startswith("benbi: 0 jobs would be retried.")
    assert command == "benbi jobs retry --task=-x --owner= --url=other.db --yes"
    assert benbi.run(*command.split()[1:]).stdout == "0 jobs retried\n"


@pytest.mark.parametrize("verb", ["cancel", "retry"])
@pytest.mark.parametrize("words", [(), ("--yes",), (MISSING, "--state", "failed")])
def test_jobs_are_named_or_chosen(shop: Command, verb: str, words: tuple[str, ...]) -> None:
    done = shop.run("jobs", verb, *words)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert "--state, --task, --queue, --owner" in line
