"""The admin on a connection that is an operator and no more: each page opens, each action and form does its work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import ProgrammingError, transaction
from django.test import Client
from django.urls import reverse

from django_pgqueue import NewMessage, enqueue, enqueue_many
from django_pgqueue.models import Channel, DeadLetter, Message, Queue, Schedule
from django_pgqueue.pipeline.models import Lake
from tests.admin.actions import CONFIRMED, subject
from tests.admin.conftest import MODELS, _default_channel, act, address, one_of_each  # noqa: F401  (a fixture)
from tests.admin.test_channels import LIMITS
from tests.admin.test_schedules import FORM, _handler  # noqa: F401  (a fixture)
from tests.support.sql import sql

# The tables of Django itself that its admin writes.
DJANGO = (
    "auth_user, django_session, django_admin_log, django_content_type, auth_permission, auth_user_groups, auth_group"
)
DJANGO += ", auth_user_user_permissions, auth_group_permissions"


@pytest.fixture
def become(db: None, roles: dict[str, str]) -> Iterator[Any]:
    """`become("operator")`: from now on the connection of Django has this role. Rolled back with the test."""

    def become(kind: str) -> None:
        sql(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {DJANGO} TO {roles[kind]}")
        sql(f"SET LOCAL ROLE {roles[kind]}")

    yield become
    sql("RESET ROLE")


@pytest.fixture
def client(one_of_each: dict[str, int]) -> Client:  # noqa: F811
    client = Client()
    client.force_login(User.objects.create_superuser("admin"))
    return client


@pytest.mark.parametrize("kind", ["operator", "reader"])
def test_every_page_is_readable(client: Client, one_of_each: dict[str, int], become: Any, kind: str) -> None:  # noqa: F811
    become(kind)
    for model in MODELS:
        if (model, kind) != ("queue", "reader"):  # the list of queues adds rows for those that have none
            assert client.get(address(model)).status_code == 200, model
        assert client.get(address(model, one_of_each[model])).status_code == 200, model
    tenant = client.get(reverse("admin:pgqueue_channel_tenant", args=[one_of_each["channel"]]))
    assert tenant.status_code == 200
    assert "pgqueue-spans" in tenant.text


def test_an_operator_does_every_action(client: Client, one_of_each: dict[str, int], become: Any) -> None:  # noqa: F811
    become("operator")
    for model, action in (
        ("channel", "pause"), ("channel", "resume"), ("queue", "pause"), ("queue", "resume"), ("worker", "pause"),
        ("worker", "resume"), ("schedule", "run_now"), ("schedule", "disable"), ("message", "retry_now"),
        ("message", "reschedule"), ("message", "edit"), ("message", "release_leases"), ("message", "discard"),
        ("message", "cancel"), ("deadletter", "edit"), ("deadletter", "redrive"), ("channel", "purge"),
        ("channel", "release"),
    ):  # fmt: skip
        response = act(client, model, action, subject(one_of_each, model, action), **CONFIRMED)
        assert response.status_code == 302, (model, action)
    assert Channel.objects.get(name="default").released_at
    assert not Schedule.objects.get().enabled
    assert DeadLetter.objects.get(reason="refused").redriven_to
    assert not Message.objects.exists()


def test_an_operator_saves_every_form(client: Client, one_of_each: dict[str, int], become: Any) -> None:  # noqa: F811
    become("operator")
    assert client.post(f"{address('channel')}add/", {**LIMITS, "queue": "default", "name": "acme"}).status_code == 302
    added = Channel.objects.get(name="acme")
    assert client.post(address("channel", added.pk), {**LIMITS, "name": "acme", "max_size": "7"}).status_code == 302
    posted = {"archive": "outcome", "events": "on", "max_concurrency": 20, "release_burst": 1, "fairness": "share"}
    assert client.post(address("queue", "default"), posted | {"max_share": 0.5}).status_code == 302
    assert client.post(f"{address('schedule')}add/", {**FORM, "name": "added", "cron": "@daily"}).status_code == 302
    schedule = Schedule.objects.get(name="added")
    assert (
        client.post(address("schedule", schedule.pk), {**FORM, "name": "added", "cron": "@hourly"}).status_code == 302
    )
    delete = address("schedule", schedule.pk).replace("/change/", "/delete/")
    assert client.post(delete, {"post": "yes"}).status_code == 302
    lake = address("lake", one_of_each["lake"]).replace("/change/", "/delete/")
    assert client.post(lake, {"post": "yes"}).status_code == 302
    assert Channel.objects.get(name="acme").max_size == 7
    queue = Queue.objects.get(name="default")
    assert (queue.archive, queue.events) == ("outcome", True)
    assert not Lake.objects.exists()
    assert not Schedule.objects.filter(name="added").exists()


def test_a_producer_uses_the_python_api_and_not_the_orm(db: None, become: Any) -> None:
    become("producer")
    assert enqueue("mail.send", {"n": 1}, dedupe_key="a").created
    assert len(enqueue_many([NewMessage(handler="mail.send")] * 3)) == 3
    channel = Channel.objects.only("id").get(queue="default", name="default")
    with pytest.raises(ProgrammingError, match="permission denied for table pgqueue_message"), transaction.atomic():
        Message.objects.create(channel_id=channel.pk, handler="mail.send")
