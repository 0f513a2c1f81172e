"""Jobs that wait for other jobs: edges, what follows when a job ends, and when it is retried.

The counts stand on the child's own row, an edge is counted once, and a child's next state
follows from its own columns only: two parents that end at the same moment never lose it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from benbi.store.database import Row, Transaction
from benbi.triggers import FAIL, RUN, SKIP, WAIT, Counts, verdict

# Edges that one transaction counts at the most; upkeep goes on with the rest.
STRETCH = 1_000
# Rows that one step of the net looks at.
NET_STRETCH = 5_000

# The state that a verdict leads to, and the reason it is told with.
LEADS_TO = {
    RUN: ("pending", "upstream"),
    FAIL: ("failed", "upstream_failed"),
    SKIP: ("skipped", "trigger_rule"),
}


def ended(tx: Transaction, ns: Sequence[int]) -> None:
    """Jobs that may have children have ended: counts their edges and moves the children.

    Children that end by it are followed in turn, up to STRETCH edges in one transaction. Jobs
    without children cost one look into an index, however many they are.
    """
    level, left = list(ns), STRETCH
    if not level or not tx.rows("edges_between", first=min(level), last=max(level)):
        return
    while level:
        edges = tx.rows("count_edges", ns=_listed(level), most=left)
        if not edges:
            return
        left -= len(edges)
        gone = settle(tx, _add(tx, edges))
        if left <= 0:
            tx.rows("leave_unsettled", ns=_listed([*level, *gone]))
            return
        level = gone


def _add(tx: Transaction, edges: Iterable[Row]) -> list[Row]:
    """Adds counted edges (child, outcome) to their children's rows."""
    added: dict[int, Counter[str]] = {}
    for child, outcome in edges:
        added.setdefault(child, Counter())[outcome] += 1
    return _change(tx, added, 1)


def _change(tx: Transaction, changes: dict[int, Counter[str]], sign: int) -> list[Row]:
    values = [
        (sign * counts["ok"], sign * counts["failed"], sign * counts["skipped"], child)
        for child, counts in sorted(changes.items())
    ]
    return [row for (row,) in filter(None, tx.each("counted", values))]


def settle(tx: Transaction, rows: Iterable[Row]) -> list[int]:
    """Moves those that wait no longer, by (n, rule, total, ok, failed, skipped, waits).

    Returns the jobs that ended by it.
    """
    says: dict[str, list[int]] = {}
    for n, rule, *counts, waits in rows:
        if waits:
            says.setdefault(verdict(rule, Counts(*counts)), []).append(n)
    gone: list[int] = []
    for said, (state, reason) in LEADS_TO.items():
        if said in says:
            moved = tx.rows("settle", ns=_listed(says[said]), state=state, reason=reason)
            ns = [row[0] for row in moved]
            if said == FAIL:
                _tell_failed(tx, moved)
            else:
                tx.rows("arrived", ns=_listed(ns))
            gone += [] if said == RUN else ns
    return gone


def _tell_failed(tx: Transaction, moved: Sequence[Row]) -> None:
    # Many children of one parent fail with one text.
    told: dict[tuple[Any, ...], str] = {}
    why: dict[int, str] = {}
    for n, *found in tx.rows("failed_upstream", ns=_listed(row[0] for row in moved)):
        parent = tuple(found)
        if parent not in told:
            told[parent] = _root(*found)
        why[n] = told[parent]
    errors = [(n, seq, attempt, why.get(n, _UNKNOWN)) for n, seq, attempt in moved]
    tx.many("result", [(n, None, error) for n, _, _, error in errors])
    tx.many(
        "event",
        [
            (n, seq, "failed", "upstream_failed", attempt, tx.now, error)
            for n, seq, attempt, error in errors
        ],
    )


def _root(id: bytes, task: str, state: str, reason: str | None, error: str | None) -> str:
    """The error record of a job that failed with its upstream: it names the job to look at."""
    if error is not None:
        return error
    root = str(UUID(bytes=id))
    return _error(f"job {root} ({task}), which came first, is {state} ({reason})", root)


def _error(message: str, root: str | None) -> str:
    return json.dumps(
        {
            "type": "UpstreamFailed",
            "message": message,
            "kind": "upstream_failed",
            "rule": "a job runs only if its trigger rule (when=) holds for what came first",
            "traceback": "",
            "root": root,
        }
    )


_UNKNOWN = _error("a job that came first failed, and is not kept any more", None)


# Waiting begins.


def attach(tx: Transaction, child: int, parents: Iterable[int]) -> None:
    """Edges from parents to a child that was stored as waiting for them; none is counted yet."""
    tx.many("edge", [(parent, child) for parent in parents])


def await_jobs(tx: Transaction, n: int, ids: Iterable[bytes]) -> None:
    """A job that was running waits until all of these have ended. What is not there any more
    is not waited for: the job itself finds out."""
    tx.rows("forget_upstream", n=n)
    found = [row for id in dict.fromkeys(ids) for row in tx.rows("upstream_job", id=id)]
    attach(tx, n, (parent for parent, *_ in found))
    tx.rows("await_total", n=n, total=len(found))
    begin(tx, [n], [parent for parent, _, final in found if final])


def begin(tx: Transaction, children: Sequence[int], final: Sequence[int]) -> None:
    """New edges: counts the parents that have ended already, and moves whoever need not wait."""
    if final:
        ended(tx, final)
    settled = settle(tx, tx.rows("standing_upstream", ns=_listed(children)))
    ended(tx, settled)


# A retry by hand.


def waits(tx: Transaction, n: int) -> bool:
    """Whether this job, by its counts, would have to wait if it began anew."""
    return any(
        verdict(rule, Counts(*counts)) == WAIT
        for _, rule, *counts, _ in tx.rows("standing_upstream", ns=_listed([n]))
    )


def reopen(tx: Transaction, n: int) -> int:
    """Job ``n`` lives again: so do, all the way down, the jobs that failed with it. How many.

    In one transaction, however many they are. What still fails by what else came first stays.
    """
    level, reopened = [n], 0
    while edges := tx.rows("counted_edges", ns=_listed(level)):
        tx.many("uncount_edge", [(parent, child) for parent, child, _ in edges])
        taken: dict[int, Counter[str]] = {}
        for _, child, outcome in edges:
            taken.setdefault(child, Counter())[outcome] += 1
        rows = _change(tx, taken, -1)
        hopeful = [row[0] for row in rows if verdict(row[1], Counts(*row[2:6])) != FAIL]
        level = [row[0] for row in tx.rows("wait_again", ns=_listed(hopeful))]
        reopened += len(level)
        tx.many("forget_result", [(child,) for child in level])
        tx.rows("arrived", ns=_listed(level))
        begin(tx, hopeful, [])
    return reopened


# Upkeep.


def go_on(tx: Transaction) -> bool:
    """Goes on with cascades that were cut; True where there is more to do."""
    left = [n for (n,) in tx.rows("unsettled", most=STRETCH)]
    tx.many("take_unsettled", [(n,) for n in left])
    ended(tx, left)
    return bool(tx.rows("unsettled", most=1))


def adrift(view: Transaction, after: int) -> tuple[int, list[int]]:
    """One step of the net: where the next one begins (0: at the start), and the jobs that wait
    although everything that they wait for has ended."""
    rows = view.rows("adrift", after=after, most=NET_STRETCH)
    return (rows[-1][0] if len(rows) == NET_STRETCH else 0), [
        n for n, is_adrift in rows if is_adrift
    ]


def rescue(tx: Transaction, ns: Sequence[int]) -> None:
    """Settles jobs that the net found."""
    begin(tx, ns, [n for (n,) in tx.rows("open_parents", ns=_listed(ns))])


def _listed(ns: Iterable[int]) -> str:
    return json.dumps(list(ns), separators=(",", ":"))
