from django.contrib.auth.models import Group

from django_pgqueue import Delivery, handler


@handler("shop.atomic", atomic=True)
def atomic(delivery: Delivery) -> None:
    Group.objects.create(name=f"atomic {delivery.payload}")


@handler("shop.plain")
def plain(delivery: Delivery) -> None:
    Group.objects.create(name=f"plain {delivery.payload}")


@handler("shop.asynchronous")
async def asynchronous(delivery: Delivery) -> None:
    await Group.objects.acreate(name=f"async {delivery.payload}")


@handler("shop.refused", atomic=True, max_attempts=1)
def refused(delivery: Delivery) -> None:
    Group.objects.create(name=f"refused {delivery.payload}")
    raise ValueError("no")
