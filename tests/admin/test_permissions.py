"""Who may do what. The pages are the only place where these permissions are asked for."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.utils import timezone

from django_pgqueue import channel_pause, dequeue, enqueue, pop
from django_pgqueue.models import (
    ArchivedMessage,
    Channel,
    DeadLetter,
    Message,
    Queue,
    Schedule,
    Worker,
)
from django_pgqueue.pipeline.models import BacklogForecast, Lake, QueueMetric
from tests.admin.conftest import MODELS, VIEW, act, address, make_dead, make_forecast, make_metric

ALLOWED = {
    ("channel", "pause"): "pause_channel",
    ("channel", "resume"): "pause_channel",
    ("channel", "purge"): "purge_channel",
    ("channel", "release"): "change_channel",
    ("channel", "erase"): "erase_channel",
    ("deadletter", "redrive"): "redrive_deadletter",
    ("deadletter", "edit"): "edit_deadletter",
    ("deadletter", "discard"): "discard_deadletter",
    ("message", "retry_now"): "reschedule_message",
    ("message", "reschedule"): "reschedule_message",
    ("message", "edit"): "edit_message",
    ("message", "discard"): "discard_message",
    ("message", "release_leases"): "release_message",
    ("message", "cancel"): "cancel_message",
    ("queue", "pause"): "pause_queue",
    ("queue", "resume"): "pause_queue",
    ("worker", "pause"): "pause_worker",
    ("worker", "resume"): "pause_worker",
    ("schedule", "run_now"): "run_schedule",
    ("schedule", "disable"): "change_schedule",
}
ACTIONS = list(ALLOWED)
# What an action is tried on, where that is not the object of the model.
SUBJECTS = {("message", "retry_now"): "scheduled", ("message", "release_leases"): "leased"}
# Whatever the forms of the pages in between ask for.
CONFIRMED = {"confirmed": "yes", "reason": "x", "at": "2100-01-01T00:00", "payload": "[1]"}


@pytest.fixture
def one_of_each() -> dict[str, int]:
    """Primary keys by model."""
    enqueue("mail.send", {"n": 1})
    pop("default", 1)
    [letter] = make_dead()
    enqueue("mail.send", {"n": 3})
    [leased] = dequeue(worker="w")
    channel_pause(channel="default", reason="paused before")
    paused = {"paused_at": timezone.now(), "pause_reason": "paused before"}
    worker = Worker.objects.create(
        name="w", hostname="h", pid=1, queues=["default"], concurrency=1, version="1", **paused
    )
    return {
        "queue": Queue.objects.create(name="default", **paused).pk,
        "channel": Channel.objects.get(name="default").pk,
        "message": enqueue("mail.send", {"n": 2}).id,
        "scheduled": enqueue("mail.send", delay=timedelta(hours=1)).id,
        "leased": leased.id,
        "archivedmessage": ArchivedMessage.objects.get().pk,
        "deadletter": letter.pk,
        "worker": worker.pk,
        "lake": Lake.objects.create(name="nightly", path="/lake", exported_xid=1, rows={}).pk,
        "queuemetric": saved(make_metric()),
        "backlogforecast": saved(make_forecast()),
        "schedule": Schedule.objects.create(name="nightly", handler="mail.send", cron="@daily").pk,
    }


def saved(item: QueueMetric | BacklogForecast) -> int:
    item.save()
    return item.pk


def everything() -> list[object]:
    models = (
        Queue,
        Channel,
        Message,
        ArchivedMessage,
        DeadLetter,
        Worker,
        Schedule,
        Lake,
        QueueMetric,
        BacklogForecast,
    )
    return [list(model.objects.order_by("pk").values()) for model in models]


@pytest.mark.parametrize("model", MODELS)
def test_nobody_looks_without_the_view_permission(
    model: str, staff: Callable[..., Client], one_of_each: dict[str, int]
) -> None:
    client = staff()
    assert client.get(address(model)).status_code == 403
    assert client.get(address(model, one_of_each[model])).status_code == 403


@pytest.mark.parametrize("model", MODELS)
def test_a_viewer_sees_lists_and_objects(model: str, viewer: Client, one_of_each: dict[str, int]) -> None:
    assert viewer.get(address(model)).status_code == 200
    response = viewer.get(address(model, one_of_each[model]))
    assert response.status_code == 200
    assert b'name="_save"' not in response.content


def test_a_viewer_is_offered_no_action(viewer: Client, one_of_each: dict[str, int]) -> None:
    for model in MODELS:
        assert b'name="action"' not in viewer.get(address(model)).content, model


def test_a_viewer_can_change_nothing(viewer: Client, one_of_each: dict[str, int]) -> None:
    before = everything()
    for model, action in ACTIONS:
        for data in (
            {},
            CONFIRMED,
            {**CONFIRMED, "select_across": "1"},
        ):
            pk = one_of_each[SUBJECTS.get((model, action), model)]
            act(viewer, model, action, pk, **data)
            viewer.get(address(model), {"action": action, "_selected_action": pk, **CONFIRMED})
    for model in MODELS:
        change = address(model, one_of_each[model])
        assert viewer.post(change, {"weight": "9", "name": "stolen", "_save": "Save"}).status_code == 403
        assert viewer.post(change.replace("/change/", "/delete/"), {"post": "yes"}).status_code == 403
        assert viewer.post(f"{address(model)}add/", {"name": "new", "queue": "default"}).status_code == 403
    assert everything() == before
    assert not LogEntry.objects.exists()


@pytest.mark.parametrize(("model", "action"), ACTIONS)
def test_an_action_needs_its_own_permission(
    model: str, action: str, staff: Callable[..., Client], one_of_each: dict[str, int]
) -> None:
    others = {codename for codename in ALLOWED.values() if codename != ALLOWED[model, action]}
    before = everything()
    pk = one_of_each[SUBJECTS.get((model, action), model)]
    act(staff(*VIEW, *others), model, action, pk, **CONFIRMED)
    assert everything() == before
    act(staff(*VIEW, ALLOWED[model, action]), model, action, pk, **CONFIRMED)
    assert everything() != before


def test_a_post_without_csrf_token_does_nothing(admin_user: object, one_of_each: dict[str, int]) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(admin_user)
    before = everything()
    for model, action in ACTIONS:
        pk = one_of_each[SUBJECTS.get((model, action), model)]
        assert act(client, model, action, pk, **CONFIRMED).status_code == 403
    assert everything() == before


def test_an_action_is_never_done_by_get(admin_client: Client, one_of_each: dict[str, int]) -> None:
    before = everything()
    for model, action in ACTIONS:
        pk = one_of_each[SUBJECTS.get((model, action), model)]
        admin_client.get(address(model), {"action": action, "_selected_action": pk, **CONFIRMED})
    assert everything() == before


@pytest.mark.parametrize(
    "model", ["message", "archivedmessage", "deadletter", "worker", "queuemetric", "backlogforecast"]
)
def test_what_the_functions_own_nobody_edits(model: str, admin_client: Client, one_of_each: dict[str, int]) -> None:
    before = everything()
    change = address(model, one_of_each[model])
    assert admin_client.post(change, {"handler": "other", "_save": "Save"}).status_code == 403
    assert admin_client.post(change.replace("/change/", "/delete/"), {"post": "yes"}).status_code == 403
    assert admin_client.get(f"{address(model)}add/").status_code == 403
    assert everything() == before


def test_a_channel_cannot_be_deleted(admin_client: Client, one_of_each: dict[str, int]) -> None:
    delete = address("channel", one_of_each["channel"]).replace("/change/", "/delete/")
    assert admin_client.post(delete, {"post": "yes"}).status_code == 403
    act(admin_client, "channel", "delete_selected", one_of_each["channel"], post="yes")
    assert Channel.objects.filter(pk=one_of_each["channel"]).exists()
