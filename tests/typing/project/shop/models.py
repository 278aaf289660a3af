from django.db import models, transaction

from django_pgqueue import Enqueued, enqueue


class Order(models.Model):
    email = models.EmailField()
    confirmed = models.BooleanField(default=False)

    def __str__(self) -> str:
        return self.email


def place_order(email: str) -> Enqueued:
    with transaction.atomic():
        order = Order.objects.create(email=email)
        return enqueue("shop.confirm", {"order": order.pk}, channel=email.partition("@")[2])
