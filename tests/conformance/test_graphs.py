"""Random graphs of jobs, with skips, failures, cancels and retries by hand, against a second
reading of what must become of each job."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from benbi.job import Claim
from benbi.outcome import Completed, Outcome, Skipped
from tests.support.rig import Rig, failure
from tests.support.rigs import KINDS, rigged
from tests.support.rules import AT_THE_END, reading

OUTCOMES: dict[str, Outcome] = {
    "completed": Completed('"done"'),
    "failed": failure("bug"),
    "skipped": Skipped("no need"),
}
LETTER = {"completed": "o", "failed": "f", "canceled": "f", "skipped": "s"}


@dataclass
class Node:
    """A job as it should be. ``heard``: what each job that came first was counted as."""

    name: int
    rule: str
    parents: list[int]
    state: str = "waiting"
    started: bool = False
    with_its_upstream: bool = False
    heard: dict[int, str] = field(default_factory=dict)

    def verdict(self) -> str:
        ends = "".join(self.heard.values())
        return reading(self.rule, ends, len(self.parents) - len(ends)) if self.parents else "run"


class Graph:
    """The reference: no counters, no statements, one wave of news after the other."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []

    def add(self, rule: str, parents: list[int]) -> Node:
        node = Node(len(self.nodes), rule, parents)
        self.nodes.append(node)
        for parent in parents:
            if self.nodes[parent].state in LETTER:
                node.heard[parent] = LETTER[self.nodes[parent].state]
        self.spread(self.decide([node]))
        return node

    def end(self, node: Node, state: str) -> None:
        node.state, node.with_its_upstream = state, False
        self.spread([node])

    def spread(self, ended: list[Node]) -> None:
        while ended:
            touched: dict[int, Node] = {}
            for child in self.nodes:
                for parent in ended:
                    if parent.name in child.parents and parent.name not in child.heard:
                        child.heard[parent.name] = LETTER[parent.state]
                        touched[child.name] = child
            ended = self.decide(touched.values())

    def decide(self, nodes: Iterable[Node]) -> list[Node]:
        """Those that end by it."""
        ended: list[Node] = []
        for node in nodes:
            verdict = node.verdict() if node.state == "waiting" else "wait"
            if verdict == "run":
                node.state = "pending"
            elif verdict != "wait":
                node.state = {"fail": "failed", "skip": "skipped"}[verdict]
                node.with_its_upstream = verdict == "fail"
                ended.append(node)
        return ended

    def again(self, node: Node) -> None:
        must_wait = not node.started and node.verdict() == "wait"
        node.state, node.with_its_upstream = ("waiting" if must_wait else "pending"), False
        alive = [node]
        while alive:
            names = {one.name for one in alive}
            hearing = [
                child
                for child in self.nodes
                if names & set(child.heard)
                and (child.state == "waiting" or child.with_its_upstream)
            ]
            for child in hearing:
                child.heard = {n: end for n, end in child.heard.items() if n not in names}
            hopeful = [child for child in hearing if child.verdict() != "fail"]
            alive = [child for child in hopeful if child.with_its_upstream]
            for child in alive:
                child.state, child.with_its_upstream = "waiting", False
            self.spread(self.decide(hopeful))


class Play:
    """The store and the reference, side by side."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.graph = Graph()
        self.ids: list[str] = []
        self.claims: dict[int, Claim] = {}
        self.worker = rig.worker()

    def add(self, rule: str, picks: list[int]) -> None:
        known = len(self.ids)
        parents = sorted({pick % known for pick in picks}) if known else []
        after = [self.ids[parent] for parent in parents]
        self.ids.append(self.rig.put(queue=f"q{known}", after=after, when=rule))
        self.graph.add(rule, parents)

    def pick(self, number: int, *states: str) -> Node | None:
        fitting = [node for node in self.graph.nodes if node.state in states]
        return fitting[number % len(fitting)] if fitting else None

    def start(self, number: int) -> None:
        node = self.pick(number, "pending")
        if node is not None:
            self.claims[node.name] = self.rig.claim_one(self.worker, queues=[f"q{node.name}"])
            node.state, node.started = "running", True

    def finish(self, number: int, outcome: str) -> None:
        node = self.pick(number, "running")
        if node is None:
            self.start(number)
            node = self.pick(number, "running")
        if node is not None:
            self.rig.finish(self.claims[node.name], OUTCOMES[outcome])
            self.graph.end(node, outcome)

    def cancel(self, number: int) -> None:
        node = self.pick(number, "waiting", "pending", "running")
        if node is not None:
            self.rig.cancel(self.ids[node.name])
            if node.state != "running":
                self.graph.end(node, "canceled")

    def again(self, number: int) -> None:
        node = self.pick(number, "failed", "canceled", "skipped")
        if node is not None:
            self.rig.again(self.ids[node.name])
            self.graph.again(node)

    def compare(self) -> None:
        found = [self.rig.state(job_id) for job_id in self.ids]
        assert found == [node.state for node in self.graph.nodes]
        for job_id, node in zip(self.ids, self.graph.nodes, strict=True):
            n = self.rig.found(job_id).n
            ((_, _, total, *counts, _),) = self.rig.rows("standing_upstream", ns=f"[{n}]")
            heard = list(node.heard.values())
            assert (total, *counts) == (len(node.parents), *(heard.count(end) for end in "ofs"))
            # What the net is for never happens.
            assert node.state != "waiting" or node.verdict() == "wait"


NUMBERS = st.integers(0, 30)
ADDS = st.tuples(
    st.just("add"), st.sampled_from(list(AT_THE_END)), st.lists(NUMBERS, max_size=4, unique=True)
)
OTHERS = st.one_of(
    st.tuples(st.just("finish"), NUMBERS, st.sampled_from(list(OUTCOMES))),
    st.tuples(st.sampled_from(["start", "cancel", "again", "again"]), NUMBERS),
)


SHORT = {"file": 40, "memory": 100, "postgresql": 15, "pgbouncer": 5}


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("kind", "examples"),
    [
        *(pytest.param(kind, SHORT[kind], id=kind) for kind in KINDS),
        *(pytest.param(kind, 2000, id=f"{kind}-long", marks=pytest.mark.soak) for kind in KINDS),
    ],
)
def test_every_job_ends_as_its_graph_says(kind: str, examples: int, folder: Path) -> None:
    @settings(max_examples=examples, phases=set(Phase) - {Phase.explain})
    @given(
        adds=st.lists(ADDS, min_size=2, max_size=10),
        others=st.lists(st.one_of(OTHERS, OTHERS, ADDS), max_size=30),
    )
    def play(adds: list[tuple[str, ...]], others: list[tuple[str, ...]]) -> None:
        with rigged(kind, folder) as rig:
            game = Play(rig)
            for move, *arguments in [*adds, *others]:
                getattr(game, move)(*arguments)
                game.compare()

    play()


def test_the_reference_can_tell_a_job_that_failed_with_its_upstream(rig: Rig) -> None:
    """The comparison itself: a child that ran is not taken back, one that did not is."""
    game = Play(rig)
    game.add("all_success", [])
    game.add("all_success", [0])
    game.add("all_done", [0])
    game.finish(0, "failed")
    assert [node.state for node in game.graph.nodes] == ["failed", "failed", "pending"]
    game.again(0)
    assert [node.state for node in game.graph.nodes] == ["pending", "waiting", "pending"]
    game.compare()
