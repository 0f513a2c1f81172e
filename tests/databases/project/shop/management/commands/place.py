from django.core.management.base import BaseCommand
from django.db import transaction

from shop import tasks
from shop.models import Order


class Command(BaseCommand):
    help = "Places orders (ship=17), each in a transaction with its job; prints the jobs."

    def add_arguments(self, parser):
        parser.add_argument("orders", nargs="+")
        parser.add_argument("--roll-back", action="store_true")

    def handle(self, *args, orders, roll_back, **options):
        for order in orders:
            by, number = order.split("=")
            with transaction.atomic():
                Order.objects.create(number=number)
                job = getattr(tasks, by).enqueue_sync(int(number))
                transaction.set_rollback(roll_back)
            self.stdout.write(job.id)
