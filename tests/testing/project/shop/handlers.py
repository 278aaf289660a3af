from django.contrib.auth.models import Group

from django_pgqueue import enqueue, handler


@handler("shop.confirm", atomic=True)
def confirm(delivery):
    Group.objects.create(name=delivery.payload["order"])
    enqueue("shop.ship", {"order": delivery.payload["order"]})


@handler("shop.ship")
async def ship(delivery):
    assert await Group.objects.filter(name=delivery.payload["order"]).aexists()
