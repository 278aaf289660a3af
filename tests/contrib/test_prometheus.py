"""Metrics: the text is what Prometheus reads, the collector says the same, and strangers see nothing."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from datetime import timedelta
from typing import Any

import pytest
import yaml
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import path
from django.utils import timezone
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from django_pgqueue import (
    Breaker,
    breaker_open,
    breaker_set,
    channel_set,
    dead_letter,
    dequeue,
    enqueue,
    limit_pause,
    limit_set,
    retry,
)
from django_pgqueue.contrib.prometheus import families as prometheus
from django_pgqueue.contrib.prometheus.collector import QueueCollector
from django_pgqueue.contrib.prometheus.families import families, histogram
from django_pgqueue.contrib.prometheus.text import CONTENT_TYPE, render
from django_pgqueue.contrib.prometheus.views import metrics
from django_pgqueue.models import Activity, Worker
from tests.security.names import NAMES
from tests.support.cases import cases
from tests.support.markdown import page
from tests.support.moments import pass_time
from tests.support.paths import REPOSITORY

urlpatterns = [path("metrics", metrics)]
pytestmark = [pytest.mark.django_db, pytest.mark.urls(__name__)]
TOKEN = "canary-of-the-metrics-7c31"


@pytest.fixture(autouse=True)
def _queue() -> None:
    """Two ready, one leased, one dead; a worker."""
    channel_set(channel="default")
    channel_set(channel="acme", queue="mails")
    for _ in range(4):
        enqueue("h")
    pass_time(minutes=10)
    held, dead = dequeue(limit=2)
    dead_letter(dead, reason="refused")
    Worker.objects.create(
        name="w1", hostname="h", pid=1, queues=["default"], concurrency=1, version="0",
        running=[{"id": held.id}], totals={"completed": 7, "retried": 2},
    )  # fmt: skip


def values(name: str) -> dict[tuple[str, ...], float]:
    """The samples of a family, as Prometheus reads them, by their labels."""
    for family in text_string_to_metric_families(render(families())):
        for sample in family.samples:
            if sample.name == name:
                return {tuple(sample.labels.values()): sample.value for sample in family.samples}
    raise AssertionError(f"there is no {name}")


def test_the_state_of_the_queues() -> None:
    assert values("pgqueue_messages") == {
        ("default", "ready"): 2, ("default", "leased"): 1, ("default", "scheduled"): 0,
        ("default", "waiting_for_limit"): 0, ("default", "waiting_for_order_key"): 0,
        ("mails", "ready"): 0, ("mails", "leased"): 0, ("mails", "scheduled"): 0, ("mails", "waiting_for_limit"): 0,
        ("mails", "waiting_for_order_key"): 0,
    }  # fmt: skip
    assert values("pgqueue_blocked_messages") == {("default",): 0, ("mails",): 0}
    assert values("pgqueue_dead_letters") == {("default",): 1, ("mails",): 0}
    assert values("pgqueue_oldest_ready_age_seconds")["default",] >= 600
    assert values("pgqueue_oldest_ready_age_seconds")["mails",] == 0
    assert values("pgqueue_counts_complete") == {("default",): 1, ("mails",): 1}
    assert values("pgqueue_workers") == {("default",): 1, ("mails",): 0}


def test_shared_limits_and_ordered_channels() -> None:
    limit_set("stripe", max_concurrency=3)
    limit_set("metered", release_interval=timedelta(hours=1))
    enqueue("h", limits=["stripe", "metered"])
    limit_pause("stripe", reason="down")
    pass_time(minutes=10)
    assert values("pgqueue_messages")["default", "waiting_for_limit"] == 1
    assert values("pgqueue_limit_places") == {("shared", "stripe"): 0, ("shared", "metered"): 0}
    assert values("pgqueue_limit_max_concurrency") == {("shared", "stripe"): 3}
    assert sum(values("pgqueue_limit_waiting").values()) == 1
    assert max(values("pgqueue_limit_oldest_wait_seconds").values()) >= 600
    assert values("pgqueue_limit_paused") == {("shared", "stripe"): 1, ("shared", "metered"): 0}
    channel_set(channel="invoices", ordered=True)
    enqueue("h", channel="invoices")
    retry([d for d in dequeue(limit=10) if d.channel == "invoices"], errors=[{}], delays=[timedelta(hours=1)])
    pass_time(minutes=10)
    assert values("pgqueue_held_channels") == {("default",): 1, ("mails",): 0}
    assert values("pgqueue_held_channel_age_seconds")["default",] >= 600


def test_messages_that_wait_for_their_order_key() -> None:
    for _ in range(3):
        enqueue("h", channel="acme", queue="mails", order_key="invoice-7")
    assert len(dequeue("mails", limit=10)) == 1
    found = values("pgqueue_messages")
    assert (found["mails", "waiting_for_order_key"], found["mails", "scheduled"]) == (2, 0)


def test_workers_and_the_server() -> None:
    assert values("pgqueue_worker_messages_total") == {("w1", "completed"): 7, ("w1", "retried"): 2}
    assert values("pgqueue_worker_running") == {("w1",): 1}
    assert 0 <= values("pgqueue_worker_silence_seconds")["w1",] < 60
    assert values("pgqueue_maintenance_age_seconds")[()] > 0
    assert ("pgqueue_message",) in values("pgqueue_dead_rows")


def settled(handler: str, **figures: Any) -> None:
    """Write what a handler has settled in all, as a measurement does."""
    given = {"completed": 0, "cancelled": 0, "dead": 0, "retries": 0, "errors": {}, "waits": [], "runs": []} | figures
    Activity.objects.create(queue="mails", handler=handler, minutes=0, bucket_at=timezone.now(), **given)


def test_handlers_have_counters_and_histograms() -> None:
    settled("h", completed=2, dead=1, errors={"ConnectionError": 4, "refused": 1}, waits=[0] * 20 + [3], runs=[3])
    assert values("pgqueue_handler_messages_total") == {
        ("mails", "h", "completed"): 2, ("mails", "h", "cancelled"): 0, ("mails", "h", "dead"): 1,
    }  # fmt: skip
    assert values("pgqueue_handler_failures_total") == {
        ("mails", "h", "ConnectionError"): 4, ("mails", "h", "refused"): 1,
    }  # fmt: skip
    assert values("pgqueue_handler_in_flight") == {("default", "h"): 1}
    waits = values("pgqueue_handler_wait_seconds_bucket")
    # Position 21 of the histogram is from 0.72 to 1.02 s.
    assert [waits["mails", "h", end] for end in ("0.001", "0.256", "1.024", "4194.3", "+Inf")] == [0, 0, 3, 3, 3]
    runs = values("pgqueue_handler_run_seconds_bucket")
    assert {runs["mails", "h", end] for end in ("0.001", "4194.3", "+Inf")} == {3}
    samples = {sample.suffix: sample.value for sample in histogram({}, [0] * 20 + [3])}
    assert samples["_count"] == 3
    assert samples["_sum"] == pytest.approx(3 * 0.86, rel=0.01)


def test_labels_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus, "MOST_HANDLERS", 1)
    monkeypatch.setattr(prometheus, "MOST_TYPES", 1)
    settled("rare", completed=1)
    settled("often", completed=1, dead=1, errors={"rare": 1, "Often": 2})
    found = values("pgqueue_handler_messages_total")
    assert set(found) == {("mails", "often", outcome) for outcome in ("completed", "cancelled", "dead")}
    assert values("pgqueue_handler_failures_total") == {("mails", "often", "Often"): 2}


@cases("name", NAMES.values())
def test_hostile_names_come_through(name: str) -> None:
    channel_set(channel="default", queue=name)
    assert values("pgqueue_dead_letters")[(name,)] == 0


def test_the_collector_says_the_same() -> None:
    registry = CollectorRegistry()
    registry.register(QueueCollector())
    collected = {
        (sample.name, tuple(sample.labels.items())): sample.value
        for family in registry.collect()
        for sample in family.samples
    }
    documented = {
        (sample.name, tuple(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(render(families()))
        for sample in family.samples
    }
    assert set(collected) == set(documented)
    counts = {key for key in documented if not key[0].endswith("_seconds")}
    assert {key: collected[key] for key in counts} == {key: documented[key] for key in counts}


def test_the_number_of_queries_does_not_grow(django_assert_num_queries: Any) -> None:
    with CaptureQueriesContext(connection) as few:
        families()
    for place in range(20):
        channel_set(channel="default", queue=f"q{place}")
    with django_assert_num_queries(len(few)):
        families()


def test_only_a_request_with_the_token_reads(client: Client, settings: Any) -> None:
    assert client.get("/metrics").status_code == 403
    settings.DJANGO_PGQUEUE = {"METRICS_TOKEN": TOKEN}
    answer = client.get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, CONTENT_TYPE)
    assert 'pgqueue_messages{queue="default",state="ready"} 2.0\n' in answer.content.decode()
    assert "no-store" in answer.headers["Cache-Control"]
    for header in (f"Bearer {TOKEN}x", "Bearer ", "Bearer", f"Basic {TOKEN}", TOKEN, "Bearer é"):
        refused = client.get("/metrics", headers={"Authorization": header})
        assert (refused.status_code, b"pgqueue" in refused.content) == (403, False)
    assert client.post("/metrics", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 405


def test_an_empty_token_opens_nothing(client: Client, settings: Any) -> None:
    settings.DJANGO_PGQUEUE = {"METRICS_TOKEN": ""}
    assert client.get("/metrics", headers={"Authorization": "Bearer "}).status_code == 403


def test_staff_may_read_with_the_permission(client: Client) -> None:
    user = User.objects.create_user("ada", is_staff=True)
    client.force_login(user)
    assert client.get("/metrics").status_code == 403
    user.user_permissions.add(Permission.objects.get(codename="view_queue"))
    assert client.get("/metrics").status_code == 200
    User.objects.update(is_staff=False)
    assert client.get("/metrics").status_code == 403


def test_neither_the_text_nor_the_view_needs_the_client_library() -> None:
    program = "import sys; sys.modules['prometheus_client'] = None; import django; django.setup(); "
    program += "import django_pgqueue.contrib.prometheus.views"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "testproject.settings"}, cwd=REPOSITORY / "testproject",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_every_metric_is_documented() -> None:
    documented = page("docs/reference/metrics.md")
    for family in families():
        assert f"`{family.name}`" in documented


def test_the_dashboard_of_grafana_and_the_alerts_ask_for_metrics_of_the_page() -> None:
    settled("h", completed=1, errors={"ConnectionError": 1}, waits=[1], runs=[1])
    limit_set("stripe", max_concurrency=1)
    breaker_set("h", Breaker())
    scraped = {
        sample.name: set(sample.labels)
        for family in text_string_to_metric_families(render(families()))
        for sample in family.samples
    }
    folder = REPOSITORY / "examples" / "deploy"
    rules = [rule for group in yaml.safe_load((folder / "alerts.yml").read_text())["groups"] for rule in group["rules"]]
    panels = json.loads((folder / "dashboard.json").read_text())["panels"]
    asked = [rule["expr"] for rule in rules] + [target["expr"] for panel in panels for target in panel["targets"]]
    assert len(asked) > 15
    for expression in asked:
        names = re.findall(r"pgqueue_\w+", expression)
        assert names
        assert set(names) <= set(scraped), expression
        grouped = re.findall(r"\b(?:by|on) \(([\w, ]+)\)", expression)
        labels = {label.strip() for group in grouped for label in group.split(",")}
        labels |= set(re.findall(r"(\w+)=~?\"", expression))
        assert labels <= set().union(*(scraped[name] for name in names)), expression
    documented = page("docs/reference/metrics.md")
    for rule in rules:
        runbook = rule["annotations"]["runbook_url"]
        assert runbook == f"reference/metrics.html#{rule['alert'].lower()}"
        assert f"### {rule['alert']}\n" in documented
    assert documented.count("\n### ") == len(rules)


def test_open_breakers_are_counted_by_handler() -> None:
    breaker_set("h", Breaker())
    breaker_set("other", Breaker())
    breaker_open("h")
    dequeue()

    found = {
        family.name: [(s.labels["handler"], s.value) for s in family.samples]
        for family in families()
        if "breaker" in family.name
    }

    assert found == {
        "pgqueue_breakers_open": [("h", 1), ("other", 0)],
        "pgqueue_breaker_waiting": [("h", 2), ("other", 0)],
        "pgqueue_breaker_openings_total": [("h", 1), ("other", 0)],
    }
