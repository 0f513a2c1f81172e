"""``benbi jobs artifacts | save | logs``."""

from __future__ import annotations

import hashlib

import pytest

from tests.doors.cli.command import Command

CONTENT = b"name,price\nkite,9\n"
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture(scope="module")
def reported(shop: Command) -> str:
    """A job that saved a file and logged two lines."""
    job_id = shop.enqueue("reports")
    assert shop.run("jobs", "watch", job_id).returncode == 0
    return job_id


def test_files_are_listed(shop: Command, reported: str) -> None:
    assert shop.run("jobs", "artifacts", reported).stdout == f"18  {SHA256}  report.csv\n"
    assert shop.read("jobs", "artifacts", reported) == {
        "artifacts": [{"name": "report.csv", "size": 18, "sha256": SHA256}]
    }
    other = shop.enqueue("add", "a=1", "--delay", "1h")
    assert shop.run("jobs", "artifacts", other).stdout == "no artifacts\n"
    assert "artifact_saved  report.csv (18 bytes)" in shop.run("jobs", "show", reported).stdout


def test_a_file_is_saved_here(shop: Command, reported: str) -> None:
    done = shop.run("jobs", "save", reported, "report.csv")
    assert (done.returncode, done.stdout) == (0, "report.csv  18 bytes\n")
    assert (shop.folder / "report.csv").read_bytes() == CONTENT
    again = shop.run("jobs", "save", reported, "report.csv")
    assert again.returncode == 1 and "--force" in again.stderr
    assert shop.run("jobs", "save", reported, "report.csv", "--force").returncode == 0
    (shop.folder / "to").mkdir()
    saved = shop.read("jobs", "save", reported, "report.csv", "to")
    assert saved["path"] == "to/report.csv"
    assert (shop.folder / "to" / "report.csv").read_bytes() == CONTENT
    assert not list(shop.folder.glob(".report.csv*.part"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["other.csv"], "has no artifact 'other.csv'"),
        (["report.csv", "no/such/folder/x"], "No such file or directory"),
    ],
)
def test_what_can_not_be_saved_is_said_on_one_line(
    shop: Command, reported: str, words: list[str], said: str
) -> None:
    done = shop.run("jobs", "save", reported, *words)
    assert done.returncode == 1
    assert said in done.stderr and done.stderr.count("\n") == 1


def test_a_changed_file_is_refused(shop: Command) -> None:
    job_id = shop.enqueue("reports")
    assert shop.run("jobs", "watch", job_id).returncode == 0
    newest = max(
        (shop.folder / "jobs.db-artifacts").iterdir(), key=lambda file: file.stat().st_ctime
    )
    newest.write_bytes(b"other")
    done = shop.run("jobs", "save", job_id, "report.csv", "changed.csv")
    assert done.returncode == 1 and "SHA-256" in done.stderr
    assert not (shop.folder / "changed.csv").exists()


def test_the_log_of_a_job(shop: Command, reported: str) -> None:
    lines = shop.run("jobs", "logs", reported).stdout.splitlines()
    assert [line[13:] for line in lines] == [
        "INFO shop: 1 row",
        "WARNING shop: \\x1b[31mno red ink",
    ]
    followed = shop.run("jobs", "logs", reported, "--follow")
    assert (followed.returncode, followed.stdout.splitlines()) == (0, lines)
    first, _ = shop.run("jobs", "logs", reported, "--json").stdout.splitlines()
    assert '"message": "1 row"' in first and '"attempt": 1' in first
    none = shop.run("jobs", "logs", reported, "--attempt", "2")
    assert (none.returncode, none.stdout) == (0, "")
    assert none.stderr == "benbi: nothing was logged\n"


def test_a_running_job_is_followed_to_its_end(shop: Command) -> None:
    gate = shop.folder / "gate"
    job_id = shop.enqueue("reports", f"gate={gate}")
    following = shop.start("jobs", "logs", job_id, "--follow")
    following.until("1 row")
    assert following.poll() is None
    gate.touch()
    assert following.wait() == 0
    assert "no red ink" in following.out.read_text()


@pytest.mark.parametrize("words", [["artifacts"], ["logs"], ["logs", "--follow"], ["save"]])
def test_a_missing_job_is_refused_on_one_line(shop: Command, words: list[str]) -> None:
    job_id = "0197a2b3-4c5d-7e6f-8a9b-0c1d2e3f4a5b"
    name = ["report.csv"] if words == ["save"] else []
    done = shop.run("jobs", words[0], job_id, *name, *words[1:])
    assert (done.returncode, done.stderr) == (1, f"benbi: no job {job_id!r}\n")
