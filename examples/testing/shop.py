"""A small shop: an order is charged, asked about, delivered, and followed by a reminder."""

from benbi import Benbi, Context, Retry

app = Benbi()


class Bank:
    """The client of a bank. The real one is no part of this example."""

    async def charge(self, customer: str, amount: int, key: str) -> str:
        raise NotImplementedError


@app.resource
async def bank() -> Bank:
    return Bank()


@app.task
def remind(customer: str, receipt: str) -> str:
    """Asks the customer for a review."""
    return f"{customer}: how do you like it? ({receipt})"


@app.task(retry=Retry(3, first=60))
async def order(ctx: Context, customer: str, amount: int) -> str:
    """Charges the customer, and asks whether to wrap the gift."""

    async def charge() -> str:
        client = await ctx.resource(bank)
        return await client.charge(customer, amount, key=ctx.key)

    receipt = await ctx.step(charge)()
    await ctx.progress(1, 2, "charged")
    wrapped = await ctx.ask("Wrap it?", bool, timeout="1d", default=False)
    await remind.options(delay="7d", key=ctx.key).enqueue(customer, receipt)
    return f"{receipt}, {'wrapped' if wrapped else 'plain'}"
