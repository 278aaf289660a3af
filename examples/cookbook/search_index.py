"""Debounced search indexing: many saves of a row in half a minute, one update of the index, and no save is lost."""

from datetime import timedelta

from django.db import models, transaction

from django_pgqueue import Delivery, enqueue, handler


class Product(models.Model):
    name = models.TextField()

    class Meta:
        app_label = "cookbook"


def rename(product: int, name: str) -> None:
    """First write the row, then enqueue: while a message for the product is live, this one is a duplicate of it."""
    with transaction.atomic():
        Product.objects.filter(pk=product).update(name=name)
        enqueue("search.index", {"product": product}, dedupe_key=f"product-{product}", delay=timedelta(seconds=30))


@handler("search.index", atomic=True)
def index(delivery: Delivery) -> None:
    """The lock lasts until the message is completed. A save that comes now waits for it, and enqueues the next one."""
    product = Product.objects.select_for_update().get(pk=delivery.payload["product"])
    write_to_index(product.pk, product.name)


def write_to_index(product: int, name: str) -> None: ...  # yours: a call with a short timeout
