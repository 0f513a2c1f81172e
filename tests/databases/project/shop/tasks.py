from django.db.models import F

from benbi import Retry
from benbi.django import app
from shop.models import Order

AT_ONCE = Retry(5, first=0.01)


@app.task(retry=AT_ONCE)
def ship(number: int) -> int:
    return Order.objects.filter(number=number).update(shipped=F("shipped") + 1)


@app.task(retry=AT_ONCE)
async def ship_in_a_loop(number: int) -> int:
    return await Order.objects.filter(number=number).aupdate(shipped=F("shipped") + 1)


@app.task(retry=AT_ONCE, isolation="process")
def ship_in_a_child(number: int) -> int:
    return Order.objects.filter(number=number).update(shipped=F("shipped") + 1)
