"""Without a plugin for async tests: each call of the app has its twin that blocks."""

from conftest import FakeBank
from shop import order, remind

from benbi.testing import TestApp, enqueued


def test_an_order_is_charged_once(benbi_app: TestApp, fake_bank: FakeBank) -> None:
    job = order.enqueue_sync("mai", 30)
    benbi_app.run_until_idle_sync()
    assert job.get_sync().state == "input_required"

    job.answer_sync(True)
    benbi_app.run_until_idle_sync()
    assert job.result_sync() == "receipt 1, wrapped"
    # The function ran twice, its step once.
    assert fake_bank.charged == [("mai", 30)]


def test_a_bank_that_is_away_is_asked_again(benbi_app: TestApp, fake_bank: FakeBank) -> None:
    fake_bank.down = 1
    job = order.enqueue_sync("mai", 30)
    benbi_app.run_until_idle_sync()
    assert job.get_sync().state == "retrying"

    benbi_app.advance_sync("1m")
    assert job.get_sync().state == "input_required"
    # Both calls had the same key: a bank that had charged before it went away would know.
    first, second = fake_bank.keys
    assert first == second


def test_silence_is_a_no(benbi_app: TestApp, fake_bank: FakeBank) -> None:
    job = order.enqueue_sync("mai", 30)
    benbi_app.advance_sync("1d")
    assert job.result_sync() == "receipt 1, plain"


def test_a_week_later_comes_a_reminder(benbi_app: TestApp, fake_bank: FakeBank) -> None:
    order.enqueue_sync("mai", 30)
    benbi_app.advance_sync("1d")

    [reminder] = enqueued(remind, customer="mai")
    assert reminder.arguments == {"customer": "mai", "receipt": "receipt 1"}
    assert reminder.job.state == "scheduled"

    benbi_app.advance_sync("7d")
    assert benbi_app.get_sync(reminder.job.id).state == "completed"
