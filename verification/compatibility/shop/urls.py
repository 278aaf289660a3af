from django.contrib.auth.models import Group
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.urls import path

from django_pgqueue import aenqueue, enqueue


def order(request: HttpRequest, name: str) -> HttpResponse:
    Group.objects.create(name=name)
    enqueue("shop.atomic", name)
    if name.startswith("broken"):
        raise RuntimeError("after the enqueue")
    return HttpResponse("ordered")


async def async_order(request: HttpRequest, name: str) -> HttpResponse:
    enqueued = await aenqueue("shop.atomic", name)
    return HttpResponse(str(enqueued.created))


urlpatterns = [path("order/<str:name>", order), path("async/<str:name>", transaction.non_atomic_requests(async_order))]
