from django.db import models


class Order(models.Model):
    number = models.BigIntegerField(unique=True)
    shipped = models.IntegerField(default=0)
