"""Nightly fan-out: one message of a schedule becomes one for each tenant, all or none."""

from collections.abc import Iterable

from django_pgqueue import Complete, Delivery, NewMessage, channel_set, enqueue_many, handler, schedule


def tenants() -> Iterable[str]:
    return (f"tenant-{number}" for number in range(10_000))  # yours: Tenant.objects.values_list("slug", flat=True)


def add_tenant(name: str) -> None:
    channel_set(channel=name, max_concurrency=1)


@schedule("0 2 * * *", time_zone="Europe/Vienna", missed="once", overlap=False)
@handler("report.all", atomic=True)
def report_all(delivery: Delivery) -> Complete:
    """`atomic`: the messages and the completion of this one commit together, so that no tenant gets two."""
    messages = (NewMessage(handler="report.one", channel=name, payload={"tenant": name}) for name in tenants())
    return Complete({"tenants": len(enqueue_many(messages))})


@handler("report.one")
def report_one(delivery: Delivery) -> None: ...
