"""What CI counts and refuses: a budget that is overrun, a skip, a README that does not work."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import budget, readme, summary
from tests.shape.source import ROOT

SOME_TESTS = """
import pytest

def test_passes(): pass

def test_fails(): assert False

def test_skips(): pytest.skip("no server")

@pytest.mark.xfail
def test_is_expected_to_fail(): assert False
"""


def report_of(tmp_path: Path, **environment: str) -> Path:
    """The report of a pytest run of SOME_TESTS."""
    (tmp_path / "test_some.py").write_text(SOME_TESTS, "utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", "utf-8")
    options = ["-p", "tests.support.skips", "-c", "pytest.ini", "--junitxml", "report.xml"]
    subprocess.run(
        [sys.executable, "-m", "pytest", *options],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
    )
    return tmp_path / "report.xml"


def test_a_skip_is_counted_where_it_is_allowed(tmp_path: Path) -> None:
    assert summary.counts(report_of(tmp_path, BENBI_NO_SKIP="0")) == (2, 1, 1)


def test_a_skip_is_a_failure_where_it_is_not(tmp_path: Path) -> None:
    assert summary.counts(report_of(tmp_path, BENBI_NO_SKIP="1")) == (2, 2, 0)


def test_no_test_at_all_is_not_a_success(capsys: pytest.CaptureFixture[str]) -> None:
    assert summary.main([]) == 1
    assert capsys.readouterr().out == "benbi: 0 passed, 0 failed, 0 skipped\n"


def part(seconds: float, command: str) -> int:
    """The exit code of a part of a run that has a share of ``seconds``."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(budget, "budgets", lambda: {"some": seconds})
        return budget.main(["some", "--", sys.executable, "-c", command])


@pytest.mark.parametrize(("command", "code"), [("pass", 0), ("exit(3)", 3)])
def test_a_part_within_its_share_ends_as_its_command_does(command: str, code: int) -> None:
    assert part(10, command) == code


def test_a_part_that_is_stuck_is_ended() -> None:
    assert part(0.1, "import signal; signal.sigwait([signal.SIGUSR1])") == 124


@pytest.mark.parametrize(
    ("machine", "share", "over", "code"),
    [(1.0, 60, False, 0), (1.0, 40, True, 0), (1.0, 30, True, 1), (3.0, 30, False, 0)],
)
def test_the_whole_keeps_within_its_budget(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    machine: float,
    share: float,
    over: bool,
    code: int,
) -> None:
    monkeypatch.setenv("BUDGET_SPENT", str(tmp_path / "seconds"))
    (tmp_path / "seconds").write_text("one 30.0\ntwo 70.5\n", "utf-8")
    monkeypatch.setattr(budget, "budgets", lambda: {"one": share, "two": share})
    monkeypatch.setattr(budget, "slowness", lambda: machine)
    assert budget.main(["--whole"]) == code
    assert ("over its budget" in capsys.readouterr().err) == over


def test_what_a_part_took_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUDGET_SPENT", str(tmp_path / "seconds"))
    assert part(10, "pass") == 0
    assert part(10, "exit(3)") == 3
    names = [line.split()[0] for line in (tmp_path / "seconds").read_text("utf-8").splitlines()]
    assert names == ["some", "some"]


def test_a_machine_is_never_called_faster_than_the_usual_one() -> None:
    assert budget.slowness() >= 1


def test_a_suite_without_a_budget_does_not_run() -> None:
    assert budget.main(["nonesuch", "--", "false"]) == 2


PAGE = """# Title

```sh
false
```

## First minute

```python hello.py
print("hello")
```

```sh
python hello.py > said
```

```text
hello
```

```sh
grep -q {word} said
```

## Later
"""


@pytest.mark.parametrize(("word", "code"), [("hello", 0), ("goodbye", 1)])
def test_the_readme_is_run_as_printed(tmp_path: Path, word: str, code: int) -> None:
    page = tmp_path / "README.md"
    page.write_text(PAGE.format(word=word), "utf-8")
    venv = Path(sys.executable).parent.parent
    assert readme.main([str(page), str(venv), "20"]) == code
