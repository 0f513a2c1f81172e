"""Chapter 10. The same call twice is one job, where you say what "the same" is."""

from __future__ import annotations

import pytest

from benbi import Benbi, IdempotencyConflict


async def test_a_key_makes_a_repeated_call_the_same_job(app: Benbi) -> None:
    """A client that lost the answer simply calls again."""

    @app.task
    async def pay(amount: int) -> int:
        return amount

    first = await pay.options(key="invoice-17").enqueue(100)
    second = await pay.options(key="invoice-17").enqueue(100)
    assert first.id == second.id
    async with app.working():
        assert await second.result() == 100
    assert len(await app.jobs()) == 1


async def test_a_key_belongs_to_one_call(app: Benbi) -> None:
    """With other arguments it is a mistake, and refused: the error names the first job."""

    @app.task
    async def pay(amount: int) -> int:
        return amount

    first = await pay.options(key="invoice-17").enqueue(100)
    with pytest.raises(IdempotencyConflict) as refused:
        await pay.options(key="invoice-17").enqueue(200)
    assert refused.value.job_id == first.id


async def test_keys_of_different_owners_never_meet(app: Benbi) -> None:
    """A key is unique per owner and task."""

    @app.task
    async def pay(amount: int) -> int:
        return amount

    mai = await pay.options(key="1", owner="mai").enqueue(100)
    ngoc = await pay.options(key="1", owner="ngoc").enqueue(200)
    assert mai.id != ngoc.id


async def test_a_key_holds_after_the_job_has_ended(app: Benbi) -> None:
    """For as long as the job is kept: the second call gets the first one's result."""

    @app.task
    async def pay(amount: int) -> int:
        return amount

    async with app.working():
        first = await pay.options(key="invoice-17").enqueue(100)
        await first.result()
        second = await pay.options(key="invoice-17").enqueue(100)
        assert await second.result() == 100
    assert first.id == second.id


async def test_an_equal_call_can_be_the_same_without_a_key(app: Benbi) -> None:
    """``same_call_within``: an equal call that is still under way, and not older than that."""

    @app.task
    async def analyse(city: str) -> str:
        return city

    impatient = analyse.options(same_call_within="10m")
    first, second = await impatient.enqueue("Hue"), await impatient.enqueue("Hue")
    other = await impatient.enqueue("Da Nang")
    assert first.id == second.id != other.id

    async with app.working():
        await first.result()
    assert (await impatient.enqueue("Hue")).id != first.id


async def test_owners_see_only_their_own_jobs(app: Benbi) -> None:
    """``owner=`` says whose job it is; who asks as somebody else finds nothing."""

    @app.task
    async def pay(amount: int) -> int:
        return amount

    job = await pay.options(owner="mai").enqueue(100)
    assert [found.id for found in await app.jobs(owner="mai")] == [job.id]
    assert await app.jobs(owner="ngoc") == []
