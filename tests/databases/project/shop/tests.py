"""Tests as Django's runner runs them: test_django.py starts it."""

from django.db import connection, transaction
from django.test import TestCase, TransactionTestCase

from benbi import JobNotFound
from benbi.django import app
from benbi.testing import fresh
from shop.models import Order
from shop.tasks import ship


class InATransaction(TestCase):
    """Each test is one transaction, and so are its jobs."""

    def test_the_job_goes_with_the_transaction_of_the_test(self):
        Order.objects.create(number=1)
        with self.captureOnCommitCallbacks() as hints:
            job = ship.enqueue_sync(1)
        self.assertEqual(hints, [app.wake])
        with connection.cursor() as cursor:
            cursor.execute("SELECT state FROM benbi.jobs WHERE id = %s", [job.id])
            self.assertEqual(cursor.fetchall(), [("pending",)])

    def test_nothing_is_left_of_other_tests(self):
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM benbi.jobs")
            self.assertEqual(cursor.fetchall(), [(0,)])

    def test_an_app_under_test_keeps_its_jobs_in_memory(self):
        with fresh(app) as tested:
            job = ship.enqueue_sync(1)
            self.assertEqual(tested.get_sync(job.id).state, "pending")
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM benbi.jobs")
            self.assertEqual(cursor.fetchall(), [(0,)])


class WithTransactions(TransactionTestCase):
    """Each test has transactions of its own."""

    def test_what_is_rolled_back_was_never_enqueued(self):
        with transaction.atomic():
            with transaction.atomic():
                gone = ship.enqueue_sync(1)
                transaction.set_rollback(True)
            kept = ship.enqueue_sync(2)
        self.assertEqual(app.get_sync(kept.id).state, "pending")
        with self.assertRaises(JobNotFound):
            app.get_sync(gone.id)

    def test_without_a_transaction_it_is_stored_at_once(self):
        job = ship.enqueue_sync(3)
        self.assertEqual(app.get_sync(job.id).state, "pending")
