"""Each planted fault breaks one promise: the test that guards it must see it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.faults.faults import FAULTS
from tests.faults.planting import (
    Fault,
    Misplaced,
    Planted,
    by_assertion,
    planted,
    run_all,
    verdicts,
)

BY_NAME = {fault.name: fault for fault in FAULTS}
PRISTINE = "pristine"
NONE = SimpleNamespace(params={})

# All runs are waited for by whichever test comes first.
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="session")
def runs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Planted | Misplaced]:
    """The runs of the faults that were asked for, and one of all their tests without a fault."""
    names = [
        item.callspec.params["name"]
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.path == Path(__file__)
        if "name" in getattr(item, "callspec", NONE).params
    ]
    asked = [BY_NAME[name] for name in names] or FAULTS
    folder = tmp_path_factory.mktemp("planted")
    found: dict[str, Planted | Misplaced] = {
        PRISTINE: planted(folder / PRISTINE, sorted({fault.test for fault in asked}))
    }
    for number, fault in enumerate(asked):
        try:
            found[fault.name] = planted(folder / str(number), [fault.test], fault)
        except Misplaced as misplaced:
            found[fault.name] = misplaced
    run_all([run for run in found.values() if isinstance(run, Planted)])
    return found


def test_without_a_fault_every_named_test_passes(runs: dict[str, Planted]) -> None:
    found = verdicts(runs[PRISTINE])
    assert len(found) == len(runs[PRISTINE].tests)
    assert {name: told for name, told in found.items() if told} == {}


@pytest.mark.parametrize("name", list(BY_NAME))
def test_the_fault_is_seen(name: str, runs: dict[str, Planted | Misplaced]) -> None:
    fault, run = BY_NAME[name], runs[name]
    assert isinstance(run, Planted), run
    (told,) = verdicts(run).values()
    assert told, f"{fault.test} passes with the fault in {fault.file}"
    assert all(by_assertion(message) for message in told), told


def test_a_fault_that_is_an_error_proves_nothing(tmp_path: Path) -> None:
    """The runner itself: a statement that SQLite refuses is no fault that was seen."""
    fault = Fault(
        "a typing error",
        "store/sql/sqlite/lifecycle.sql",
        "DELETE FROM benbi_results WHERE n = :n;\n\n-- name: register_worker",
        "DELETE FROM benbi_result WHERE n = :n;\n\n-- name: register_worker",
        "tests/conformance/test_again.py::test_twice_by_hand_is_once[memory]",
    )
    run = planted(tmp_path, [fault.test], fault)
    run_all([run])
    (told,) = verdicts(run).values()
    assert told
    assert not all(by_assertion(message) for message in told)


def test_each_fault_has_a_name_and_edits_something() -> None:
    assert len(BY_NAME) == len(FAULTS)
    assert all(fault.old != fault.new for fault in FAULTS)
