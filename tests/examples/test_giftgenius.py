"""The gift analysis by itself: the lists, the counting, the ranking, the reasons."""

from __future__ import annotations

import json
import math
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("duckdb")
pytest.importorskip("httpx2")

import httpx2

from benbi.retry import classify
from examples.giftgenius import analysis, data, ranking, reasons
from examples.giftgenius.models import Counts, History, RoughIdea, Segment

try:
    data.receipts()
except data.DataMissing as missing:
    pytest.skip(str(missing), allow_module_level=True)

# The first household of the receipts: coupons, cigarettes, coffee and beer lead its lists.
HOUSEHOLD = 900
WEEK = 6
# Shuffles: enough to test with.
FEW = 8


@pytest.fixture(scope="module")
def history() -> History:
    return analysis.load_history(HOUSEHOLD)


@pytest.fixture(scope="module")
def segments() -> list[Segment]:
    return analysis.find_segments(HOUSEHOLD)


@pytest.fixture(scope="module")
def wanted(history: History, segments: list[Segment]) -> list[str]:
    return analysis.candidates(history, segments)


@pytest.fixture(scope="module")
def counts(history: History, wanted: list[str]) -> Counts:
    kinds = [favorite.kind for favorite in history.favorites]
    total = Counts(shuffles=FEW)
    for week in range(WEEK, WEEK + 6):
        total = analysis.add(total, analysis.count_week(week, kinds, wanted, FEW))
    return total


@pytest.fixture(scope="module")
def ideas(
    history: History, segments: list[Segment], wanted: list[str], counts: Counts
) -> list[RoughIdea]:
    return ranking.rough_ideas(history, segments, wanted, counts)


def known(column: str) -> set[str]:
    found = data.rows(f"SELECT DISTINCT {column} FROM '{data.receipts()}/products.parquet'")
    return {name for (name,) in found if name}


# The lists


def test_every_name_in_the_lists_is_one_of_the_product_table() -> None:
    departments, categories, types = map(known, ("department", "product_category", "product_type"))
    for entry in data.exclusions():
        assert entry.departments <= departments, entry.group
        assert entry.categories <= categories, entry.group
        assert entry.types <= types, entry.group
        assert entry.why
    for name, entry in data.segments().items():
        assert set(entry.get("departments", ())) <= departments, name
        assert set(entry.get("categories", ())) <= categories, name
    for gift in data.gifts().values():
        assert gift.category in categories, gift.name
        assert set(gift.types) <= types, gift.name


def test_tobacco_spirits_fuel_and_coupons_are_excluded() -> None:
    groups = {entry.group for entry in data.exclusions()}
    assert {"tobacco", "spirits", "fuel", "coupons"} <= groups


def test_no_gift_is_among_the_excluded_goods() -> None:
    both = data.rows(
        "SELECT DISTINCT gift FROM line WHERE gift IS NOT NULL AND excluded IS NOT NULL"
    )
    assert both == []


def test_every_gift_has_goods_of_its_own() -> None:
    sold = {name for (name,) in data.rows("SELECT DISTINCT gift FROM line WHERE gift IS NOT NULL")}
    assert sold == set(data.gifts())
    claimed = Counter(
        (gift.category, type_) for gift in data.gifts().values() for type_ in gift.types or (None,)
    )
    assert [kind for kind, times in claimed.items() if times > 1] == []


def test_what_gifts_suit_are_segments() -> None:
    named = {
        name
        for gift in data.gifts().values()
        for name in (*gift.suits, *([gift.needs] if gift.needs else []))
    }
    assert named <= set(data.segments())


# The household


def test_a_household_is_told_by_its_own_receipts(history: History) -> None:
    lines, spend = data.rows(
        f"SELECT count(*), sum(sales_value) FROM '{data.receipts()}/transactions.parquet' "
        f"WHERE household_id = {HOUSEHOLD}"
    )[0]
    assert history.lines == lines
    assert history.spend < spend, "excluded goods count as spend"
    assert history.about["household_size"] == "2"


def test_what_is_excluded_is_counted_and_is_no_favorite(history: History) -> None:
    assert {"tobacco", "spirits", "coupons"} <= set(history.excluded)
    banned = {name for entry in data.exclusions() for name in (*entry.categories, *entry.types)}
    assert not {word for favorite in history.favorites for word in favorite.kind} & banned
    assert sum(favorite.weight for favorite in history.favorites) == pytest.approx(1, abs=0.01)


def test_a_favorite_is_bought_more_than_others_buy_it(history: History) -> None:
    assert len(history.favorites) == analysis.FAVORITES
    assert min(favorite.times_usual for favorite in history.favorites) > 1.2
    weights = [favorite.weight for favorite in history.favorites]
    assert all(one >= two for one, two in pairwise(weights))


def test_an_unknown_household_is_told_which_there_are() -> None:
    with pytest.raises(analysis.HouseholdUnknown, match=r"2,469.*from 1 to 2500.*nearest is 2500"):
        analysis.load_history(99_999)


def test_the_smallest_households_can_be_loaded_or_say_why_not() -> None:
    smallest = data.rows("SELECT household_id FROM line GROUP BY 1 ORDER BY count(*), 1 LIMIT 2")
    for (household,) in smallest:
        try:
            assert analysis.load_history(household).favorites
        except analysis.HistoryTooShort as error:
            assert str(household) in str(error)


def test_what_was_bought_already_is_no_candidate(history: History, wanted: list[str]) -> None:
    assert history.bought_gifts
    assert not set(history.bought_gifts) & set(wanted)


# The counting


def test_a_week_is_counted_as_plain_python_counts_it(history: History, wanted: list[str]) -> None:
    kinds = [favorite.kind for favorite in history.favorites]
    counted = analysis.count_week(WEEK, kinds, wanted, FEW)
    baskets: dict[int, set[Any]] = {}
    for basket, category, type_, gift in data.rows(
        "SELECT basket_id, category, type, gift FROM line "
        f"WHERE week = {WEEK} AND excluded IS NULL AND type IS NOT NULL"
    ):
        baskets.setdefault(basket, set()).update({(category, type_), gift})
    met = Counter(
        (favorite, gift)
        for goods in baskets.values()
        for favorite, kind in enumerate(kinds)
        for gift, name in enumerate(wanted)
        if kind in goods and name in goods
    )
    assert {(f, g): n for f, g, n, _, _ in counted.pairs if n} == dict(met)
    assert counted.favorites == [sum(k in goods for goods in baskets.values()) for k in kinds]
    assert counted.gifts == [sum(w in goods for goods in baskets.values()) for w in wanted]


def test_counting_twice_gives_the_same_and_little_of_it(
    history: History, wanted: list[str]
) -> None:
    kinds = [favorite.kind for favorite in history.favorites]
    once = analysis.count_week(WEEK, kinds, wanted, FEW)
    assert analysis.count_week(WEEK, kinds, wanted, FEW) == once
    text = once.model_dump_json()
    assert len(text) < 200_000
    assert Counts.model_validate_json(text) == once


def test_weeks_add_up_in_any_order(history: History, wanted: list[str]) -> None:
    kinds = [favorite.kind for favorite in history.favorites]
    one, two, three = (analysis.count_week(week, kinds, wanted, FEW) for week in (1, 2, 3))
    forward = analysis.add(analysis.add(one, two), three)
    assert forward == analysis.add(three, analysis.add(two, one))
    assert forward == analysis.add(Counts(shuffles=FEW), forward)
    assert forward.lines == one.lines + two.lines + three.lines > 0


def test_the_weeks_hold_every_receipt_line() -> None:
    first, last, lines = data.rows("SELECT min(week), max(week), count(*) FROM line")[0]
    assert (first, last) == (analysis.weeks()[0], analysis.weeks()[-1])
    assert lines == 1_469_307


def test_chance_is_what_dealing_the_goods_anew_would_give() -> None:
    kinds = [("FLUID MILK PRODUCTS", "FLUID MILK WHITE ONLY"), ("TROPICAL FRUIT", "BANANAS")]
    wanted = ["a herbal tea"]
    counted = analysis.count_week(WEEK, kinds, wanted, shuffles=100)
    slots = data.rows(
        "SELECT count(*) OVER (PARTITION BY basket_id) AS size, basket_id, category, type, gift "
        "FROM (SELECT DISTINCT basket_id, category, type, gift FROM line "
        f"WHERE week = {WEEK} AND excluded IS NULL AND type IS NOT NULL)"
    )
    for favorite, _, _, chance, spread in counted.pairs:
        expected = 0.0
        for half in range(1, 8):
            alike = [slot for slot in slots if 2**half <= slot[0] < 2 ** (half + 1)]
            liked = sum(slot[2:4] == kinds[favorite] for slot in alike)
            gifts = sum(slot[4] == wanted[0] for slot in alike)
            sizes = {slot[1]: slot[0] for slot in alike}
            expected += sum(
                1
                - share_without(len(alike), liked, size)
                - share_without(len(alike), gifts, size)
                + share_without(len(alike), liked + gifts, size)
                for size in sizes.values()
            )
        off = math.sqrt(spread) / 100 / math.sqrt(100)
        assert chance / 100 == pytest.approx(expected, abs=5 * off)


def share_without(slots: int, marked: int, drawn: int) -> float:
    """How probable it is that none of the marked slots is among the drawn ones."""
    return math.comb(slots - marked, drawn) / math.comb(slots, drawn) if slots else 1.0


# The ranking


def test_a_gift_that_meets_the_favorites_more_often_ranks_higher(
    history: History, segments: list[Segment], wanted: list[str]
) -> None:
    nothing = [(f, g, 20, 20 * FEW, 900) for f in range(20) for g in range(len(wanted))]
    raised = [(f, g, 80 if g == 7 else n, c, s) for f, g, n, c, s in nothing]
    many = Counts(shuffles=FEW, favorites=[500] * 20, gifts=[100] * len(wanted), pairs=raised)
    best = ranking.rough_ideas(history, segments, wanted, many)[0]
    assert best.gift == wanted[7]
    assert best.affinity > 3
    assert best.links[0].times_chance == 4
    even = many.model_copy(update={"pairs": nothing})
    level = ranking.rough_ideas(history, segments, wanted, even)
    assert {idea.affinity for idea in level} == {1.0}
    assert not [idea for idea in level if idea.links]


@pytest.mark.parametrize("budget", [3.0, 12.5, 40.0])
def test_the_picks_fit_the_budget_together(
    history: History, ideas: list[RoughIdea], budget: float
) -> None:
    ranked = ranking.rank(history, ideas, budget)
    assert ranked.picks
    assert sum(pick.price for pick in ranked.picks) <= budget
    assert max(Counter(pick.shelf for pick in ranked.picks).values()) <= ranking.PER_SHELF
    assert len(ranked.picks) <= ranking.IDEAS
    assert not {pick.idea.gift for pick in ranked.picks} & set(history.bought_gifts)
    assert sum(ranked.passed_over.values()) + len(ranked.picks) == len(ideas) + len(
        history.bought_gifts
    )


def test_a_pick_is_a_product_of_its_gift_at_its_shelf_price(
    history: History, ideas: list[RoughIdea]
) -> None:
    for pick in ranking.rank(history, ideas, 40.0).picks:
        gift, price = data.rows(
            "SELECT any_value(gift), median(price) FROM line WHERE product_id = ? AND price > 0",
            [pick.product_id],
        )[0]
        assert gift == pick.idea.gift
        assert pick.price == pytest.approx(price, abs=0.006)


def test_nothing_is_picked_where_the_budget_buys_nothing(
    history: History, ideas: list[RoughIdea]
) -> None:
    ranked = ranking.rank(history, ideas, 0.01)
    assert ranked.picks == []
    assert ranked.passed_over["over the budget"] > 0


# The reasons


@contextmanager
def endpoint(status: int, body: dict[str, Any]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """An OpenAI-compatible endpoint that answers one thing, and what it was asked."""
    asked: list[dict[str, Any]] = []

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers["content-length"]))
            asked.append({"path": self.path, "headers": dict(self.headers), **json.loads(text)})
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_reason_is_made_of_figures(
    history: History,
    segments: list[Segment],
    ideas: list[RoughIdea],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("GIFT_LLM_BASE_URL", raising=False)
    for pick in ranking.rank(history, ideas, 40.0).picks:
        because = reasons.facts(pick, history, segments)
        text = reasons.write_reason(pick, because)
        link = pick.idea.links[0]
        assert link.favorite.lower() in text.lower()
        assert f"{link.times_chance:g} times as often" in text
        assert f"({link.together} baskets" in text
        assert text == reasons.write_reason(pick, because)


def test_a_model_writes_the_reason_and_learns_nothing_of_who_lives_there(
    history: History,
    segments: list[Segment],
    ideas: list[RoughIdea],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pick = ranking.rank(history, ideas, 40.0).picks[0]
    answer = {"choices": [{"message": {"content": " Two sentences.\n Indeed. "}}]}
    with endpoint(200, answer) as (url, asked):
        monkeypatch.setenv("GIFT_LLM_BASE_URL", url)
        monkeypatch.setenv("GIFT_LLM_API_KEY", "k1")
        monkeypatch.setenv("GIFT_LLM_MODEL", "small")
        text = reasons.write_reason(pick, reasons.facts(pick, history, segments))
    assert text == "Two sentences. Indeed."
    (request,) = asked
    assert request["path"] == "/v1/chat/completions"
    assert request["model"] == "small"
    assert {name.lower(): value for name, value in request["headers"].items()}[
        "authorization"
    ] == "Bearer k1"
    told = json.dumps(request["messages"])
    assert str(HOUSEHOLD) not in told
    assert not [value for value in history.about.values() if len(value) > 3 and value in told]


def test_what_a_model_refuses_is_raised_as_it_is_for_the_retry_rules(
    history: History,
    segments: list[Segment],
    ideas: list[RoughIdea],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pick = ranking.rank(history, ideas, 40.0).picks[0]
    because = reasons.facts(pick, history, segments)
    for status, kind in ((429, "transient"), (503, "transient"), (401, "permanent")):
        with endpoint(status, {}) as (url, _):
            monkeypatch.setenv("GIFT_LLM_BASE_URL", url)
            with pytest.raises(httpx2.HTTPStatusError) as caught:
                reasons.write_reason(pick, because)
        assert classify(caught.value).kind == kind, status


def test_a_model_that_says_nothing_is_an_error(
    history: History,
    segments: list[Segment],
    ideas: list[RoughIdea],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pick = ranking.rank(history, ideas, 40.0).picks[0]
    with endpoint(200, {"choices": [{"message": {"content": " "}}]}) as (url, _):
        monkeypatch.setenv("GIFT_LLM_BASE_URL", url)
        with pytest.raises(ValueError, match="without a text"):
            reasons.write_reason(pick, reasons.facts(pick, history, segments))


# The example as a whole


def test_nothing_in_the_examples_sleeps() -> None:
    sources = list(Path(data.__file__).parents[1].rglob("*.py"))
    assert len(sources) > 5
    assert [source.name for source in sources if "sleep" in source.read_text("utf-8")] == []
