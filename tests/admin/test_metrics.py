"""The pages of what the lake brings back: rollups, and the lakes themselves."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.utils import quote
from django.test import Client
from django.utils import timezone

from django_pgqueue.pipeline.models import Lake, QueueMetric
from tests.admin.conftest import Page, address, make_metric

Pages = Callable[..., str]
NASTY = "a=b/<canary>\"'&?x=1#"


@pytest.fixture
def metrics(db: None) -> list[QueueMetric]:
    """Metrics of two queues, one with a channel and a handler; and the day of one of them."""
    hour = timezone.now().replace(minute=0, second=0, microsecond=0)
    rows = [
        make_metric(bucket_at=hour, queue="other"),
        make_metric(
            bucket_at=hour, queue="mail", completed=12_345, wait_p95_seconds=0.25, capacity_share=1.0, sla_breaches=3
        ),
        make_metric(bucket_at=hour, queue="mail", channel=NASTY, capacity_share=0.126, sla_seconds=30, sla_breaches=7),
        make_metric(bucket_at=hour, queue="mail", channel=NASTY, handler="mail.send", retries_by_reason={NASTY: 2}),
        make_metric(bucket_at=hour, queue="mail", grain="day"),
        make_metric(bucket_at=hour - timedelta(hours=1), queue="mail"),
    ]
    return QueueMetric.objects.bulk_create(rows)


def found(client: Client, model: str, **query: object) -> list[Any]:
    response = client.get(address(model), query)
    assert response.status_code == 200
    return list(response.context["cl"].result_list)


def test_queues_are_shown_by_the_hour_unless_something_else_is_asked_for(
    admin_client: Client, metrics: list[QueueMetric]
) -> None:
    other, mail, channel, handler, day, earlier = metrics
    assert found(admin_client, "queuemetric") == [mail, other, earlier]
    assert found(admin_client, "queuemetric", grain="nonsense", level="nonsense") == [mail, other, earlier]
    assert found(admin_client, "queuemetric", grain="day") == [day]
    assert found(admin_client, "queuemetric", level="channel") == [channel]
    assert found(admin_client, "queuemetric", level="handler", queue="mail") == [handler]
    assert found(admin_client, "queuemetric", level="handler", queue="other") == []
    assert found(admin_client, "queuemetric", level="channel", channel=NASTY) == [channel]
    assert found(admin_client, "queuemetric", level="channel", channel="another") == []


def test_a_queue_leads_to_its_channels_and_a_channel_to_its_handlers(
    admin_client: Client, metrics: list[QueueMetric]
) -> None:
    def follow(query: dict[str, str], level: str) -> list[Any]:
        """The rows behind the first link from a row to rows of this level."""
        tags = Page(admin_client.get(address("queuemetric"), query).content.decode()).tags
        links = [attributes.get("href") or "" for _tag, attributes in tags]
        down = [link for link in links if link.startswith(address("queuemetric")) and f"level={level}" in link]
        return list(admin_client.get(down[0]).context["cl"].result_list)

    _other, _mail, channel, handler, *_ = metrics
    assert follow({"queue": "mail"}, "channel") == [channel]
    assert follow({"level": "channel"}, "handler") == [handler]


def test_numbers_are_shown_for_people(page: Pages, metrics: list[QueueMetric]) -> None:
    text = page("queuemetric", queue="mail")
    for shown in ("12,345", "250\N{NO-BREAK SPACE}ms", "100.0%"):
        assert shown in text
    assert ">3<" not in text, "no promise, no breaches"
    channels = page("queuemetric", level="channel")
    assert "12.6%" in channels
    assert ">7<" in channels
    assert "30\N{NO-BREAK SPACE}s" in page("queuemetric", metrics[2].pk)


def test_names_and_reasons_do_not_become_part_of_the_page(page: Pages, metrics: list[QueueMetric]) -> None:
    Lake.objects.create(name=NASTY, path=NASTY, exported_xid=1, rows={"archive": {NASTY: 1, "2026-11-21": NASTY}})
    pages = [
        page("queuemetric", level="handler", channel=NASTY),
        page("queuemetric", metrics[3].pk),
        page("lake"),
        page("lake", quote(NASTY)),
    ]
    for text in pages:
        assert "&lt;canary&gt;" in text
        assert Page(text).canaries() == []
        assert Page(text).inline_code() == []


def test_a_lake_shows_what_it_holds_and_whether_its_export_is_late(page: Pages) -> None:
    rows = {"archive": {"2026-11-20": 1_000_000, "2026-11-21": 234_567}, "dead_letter": {"2026-11-21": 89}}
    lake = Lake.objects.create(name="nightly", path="/srv/lake", exported_xid=4711, rows=rows)
    text = page("lake")
    for shown in ("1,234,567", "89", "/srv/lake", "pgqueue-good"):
        assert shown in text
    assert "2026-11-20: 1,000,000" in page("lake", "nightly")
    Lake.objects.update(exported_at=timezone.now() - timedelta(days=2))
    assert "pgqueue-late" in page("lake")
    assert lake.pk == "nightly"


@pytest.mark.parametrize("rows", [[], {"archive": 5}, {"archive": {"2026-11-21": "many"}}])
def test_a_lake_that_says_nonsense_is_still_shown(page: Pages, rows: object) -> None:
    Lake.objects.create(name="odd", path="/lake", exported_xid=1, rows=rows)
    assert "odd" in page("lake")
    page("lake", "odd")


def test_a_lake_that_is_given_up_is_deleted_and_not_edited(admin_client: Client, staff: Callable[..., Client]) -> None:
    Lake.objects.create(name="odd", path="/lake", exported_xid=1, rows={})
    change = address("lake", "odd")
    delete = change.replace("/change/", "/delete/")
    assert staff("view_lake").post(delete, {"post": "yes"}).status_code == 403
    assert admin_client.post(change, {"path": "/elsewhere", "_save": "Save"}).status_code == 403
    assert Lake.objects.get().path == "/lake"
    assert staff("view_lake", "delete_lake").post(delete, {"post": "yes"}).status_code == 302
    assert not Lake.objects.exists()
