"""Idempotent payments: the customer is charged once, even if the worker dies between the charge and its record."""

from datetime import timedelta

from django.db import models, transaction

from django_pgqueue import Delivery, Reject, enqueue, handler


class Payment(models.Model):
    amount = models.DecimalField(max_digits=9, decimal_places=2)
    charge = models.TextField(default="")

    class Meta:
        app_label = "cookbook"


class Declined(Exception):
    pass


def pay(amount: str) -> Payment:
    with transaction.atomic():
        payment = Payment.objects.create(amount=amount)
        enqueue("payment.charge", {"payment": payment.pk}, dedupe_key=f"payment-{payment.pk}")
    return payment


@handler("payment.charge", timeout=timedelta(seconds=30), max_attempts=10)
def charge(delivery: Delivery) -> Reject | None:
    """The key comes from the payment, not from the message: a redrive is a new message, and charges nothing twice."""
    payment = Payment.objects.get(pk=delivery.payload["payment"])
    if payment.charge:
        return None
    try:
        payment.charge = charge_card(str(payment.amount), idempotency_key=f"payment-{payment.pk}")
    except Declined as error:
        return Reject("declined", str(error))
    payment.save(update_fields=["charge"])
    return None


def charge_card(amount: str, *, idempotency_key: str) -> str:
    raise NotImplementedError  # yours: the call of the provider
