"""An MCP server with one slow tool, whose calls survive the client, the server and the worker.

    benbi serve examples.giftgenius.server:app

serves it with a worker beside it; ``--no-worker`` leaves the work to ``benbi work``.
``server`` is the same for those who have an ``MCPServer`` of their own.
"""

from __future__ import annotations

import os
from typing import Annotated

from mcp.server.mcpserver import MCPServer
from pydantic import Field

import benbi.mcp
from benbi import Benbi, Context, Permanent
from examples.giftgenius import analysis, ranking, reasons
from examples.giftgenius.models import (
    Counts,
    History,
    Household,
    Idea,
    Pick,
    Ranking,
    Report,
    Segment,
)

# The demo shortens it, so that one need not wait long for the second worker to step in.
app = Benbi(heartbeat_timeout=float(os.environ.get("GIFT_HEARTBEAT", "10")))

STAGES = 5


@app.task(queue="gifts", retry=5, timeout=900, tool=True)
async def deep_gift_analysis(
    ctx: Context,
    household_id: Annotated[int, Field(ge=1, description="number of a household in the receipts")],
    budget: Annotated[float, Field(gt=0, le=10_000, description="dollars, for all ideas together")],
) -> Report:
    """Finds gift ideas for a household in a year of supermarket receipts.

    Counts, over 1.47 million receipt lines, what goes into one basket with the household's
    favorites, and chooses gifts that it never bought, within the budget, each with a reason.
    Takes about half a minute.
    """
    weeks = analysis.weeks()
    total = len(weeks) + STAGES
    await ctx.progress(0, total, f"reading the receipts of household {household_id}")
    history = await ctx.step(load_history)(household_id)
    segments = await ctx.step(analysis.find_segments)(household_id)
    likes = segments[0].name if segments else history.favorites[0].name
    await ctx.progress(2, total, f"{history.trips} trips; {likes} stands out")

    wanted = analysis.candidates(history, segments)
    favorites = [favorite.kind for favorite in history.favorites]
    counts = Counts(shuffles=analysis.SHUFFLES)
    for week in weeks:
        # One step each: whoever goes on after a crash starts at the week that was not recorded.
        counted = await ctx.step(analysis.count_week)(week, favorites, wanted, counts.shuffles)
        counts = analysis.add(counts, counted)
        await ctx.progress(2 + week, total, f"week {week}: {counts.lines:,} receipt lines counted")
        if week == len(weeks) // 3:
            await ctx.partial(draft(ranking.rough_ideas(history, segments, wanted, counts), week))

    ideas = await ctx.step(ranking.rough_ideas)(history, segments, wanted, counts)
    await ctx.partial(draft(ideas, len(weeks)))
    ranked = await ctx.step(ranking.rank)(history, ideas, budget)
    await ctx.progress(total - 1, total, f"writing {len(ranked.picks)} reasons")
    written = [
        await ctx.step(reasons.write_reason)(pick, reasons.facts(pick, history, segments))
        for pick in ranked.picks
    ]
    answer = report(history, segments, counts, ranked, written, budget)
    await ctx.progress(total, total, f"{len(written)} ideas for ${answer.total:,.2f}")
    return answer


def load_history(household_id: int) -> History:
    """``analysis.load_history``; what no second try can mend is said to be permanent."""
    try:
        return analysis.load_history(household_id)
    except (analysis.HouseholdUnknown, analysis.HistoryTooShort) as error:
        raise Permanent(str(error)) from error


def draft(ideas: list[ranking.RoughIdea], weeks: int) -> dict[str, object]:
    """What a client may show while the rest is still being counted: the first three."""
    return {"after_weeks": weeks, "ideas": [idea.gift for idea in ideas if idea.links][:3]}


def report(
    history: History,
    segments: list[Segment],
    counts: Counts,
    ranked: Ranking,
    written: list[str],
    budget: float,
) -> Report:
    """The answer, put together from what the steps recorded."""
    return Report(
        household=Household(
            household_id=history.household_id,
            about=history.about,
            trips=history.trips,
            spend=history.spend,
            since=history.first_day,
            until=history.last_day,
            favorites=[favorite.name for favorite in history.favorites],
        ),
        segments=segments[:5],
        ideas=[idea(pick, why) for pick, why in zip(ranked.picks, written, strict=True)],
        total=round(sum(pick.price for pick in ranked.picks), 2),
        budget=budget,
        note=_note(ranked, budget),
        excluded=history.excluded,
        passed_over=ranked.passed_over,
        lines_read=counts.lines,
        baskets_read=counts.baskets,
    )


def idea(pick: Pick, why: str) -> Idea:
    """One pick with its reason."""
    details = ", ".join(word for word in (pick.size, f"{pick.brand} brand") if word.strip())
    return Idea(
        product=f"{pick.title} ({details})",
        product_id=pick.product_id,
        category=pick.shelf,
        price=pick.price,
        affinity=pick.idea.affinity,
        goes_with=pick.idea.links,
        reason=why,
    )


def _note(ranked: Ranking, budget: float) -> str:
    if ranked.picks:
        return "Prices are shelf prices of the year, without discounts."
    if ranked.passed_over.get("over the budget"):
        return f"Nothing that fits the household costs less than ${budget:,.2f}: try a little more."
    return "Nothing stood out: what the household likes goes with none of the gifts in the list."


server = MCPServer("giftgenius", **benbi.mcp.parts(app, prefix="giftgenius"))
