"""Row level security in handlers: real policies, a role that they hold for, and messages of several tenants at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connection, transaction
from django.test import override_settings
from psycopg import ClientCursor

from django_pgqueue import Complete, Delivery, NewMessage, enqueue, enqueue_many
from django_pgqueue.models import ArchivedMessage, Channel
from django_pgqueue.models import DeadLetter as DeadMessage
from tests.support.sql import sql
from tests.worker.conftest import where

Drain = Callable[..., dict[str, int]]
Register = Callable[..., None]

TENANTS = ["acme", "bolt", "cord"]
ROLE = "pgqueue_test_tenant"
SCHEMA = f"""
DROP TABLE IF EXISTS tenant_note;
CREATE TABLE tenant_note (tenant text NOT NULL, body text NOT NULL);
INSERT INTO tenant_note SELECT t, 'of ' || t FROM unnest(ARRAY['acme', 'bolt', 'cord']) AS t;
ALTER TABLE tenant_note ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON tenant_note USING (tenant = nullif(current_setting('app.tenant', true), ''));
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{ROLE}') THEN CREATE ROLE {ROLE}; END IF;
END $$;
GRANT USAGE ON SCHEMA public TO {ROLE};
GRANT SELECT, INSERT ON tenant_note TO {ROLE};
"""
SETTINGS = {
    "HANDLER_MIDDLEWARE": ["django_pgqueue.contrib.context.set_local.restore"],
    "SET_LOCAL": {"role": "database_role", "app.tenant": "tenant"},
    "AUTO_CREATE_CHANNELS": True,
}


@pytest.fixture(autouse=True)
def _tenants(queue: None) -> Iterator[None]:
    sql(SCHEMA)
    for tenant in TENANTS:
        Channel.objects.create(name=tenant, queue="default", context={"tenant": tenant, "database_role": ROLE})
    with override_settings(DJANGO_PGQUEUE=SETTINGS):
        yield
    sql(f"DROP TABLE tenant_note; DROP OWNED BY {ROLE}; DROP ROLE {ROLE}")


def notes() -> list[str]:
    return [body for (body,) in sql("SELECT body FROM tenant_note ORDER BY body")]


def look(delivery: Delivery) -> Complete:
    return Complete(notes())


def look_together(deliveries: list[Delivery]) -> dict[int, Complete]:
    seen = notes()
    return {delivery.id: Complete([*seen, len(deliveries)]) for delivery in deliveries}


async def look_async(delivery: Delivery) -> Complete:
    first = await sync_to_async(notes)()
    await asyncio.sleep(0.001 * (delivery.id % 5))
    second = await sync_to_async(notes)()
    assert first == second
    return Complete(second)


async def look_together_async(deliveries: list[Delivery]) -> dict[int, Complete]:
    seen = await sync_to_async(notes)()
    return {delivery.id: Complete([*seen, len(deliveries)]) for delivery in deliveries}


@pytest.mark.parametrize(
    ("function", "policy"),
    [
        (look, {}),
        (look, {"atomic": True}),
        (look_async, {}),
        (look_together, {"batch": 10}),
        (look_together, {"batch": 10, "atomic": True}),
        (look_together_async, {"batch": 10}),
    ],
    ids=["sync", "atomic", "async", "batch", "atomic batch", "async batch"],
)
def test_each_handler_sees_its_tenants_rows(
    drain: Drain, register: Register, function: Callable[..., Any], policy: dict[str, Any]
) -> None:
    register("look", function, **policy)
    # Two of a tenant beside each other, so that batches come about.
    sent = enqueue_many(
        NewMessage(handler="look", channel=tenant) for _ in range(20) for tenant in TENANTS for _ in range(2)
    )
    assert drain() == {"completed": len(sent)}
    for message in ArchivedMessage.objects.filter(id__in=[one.id for one in sent]):
        assert message.result[0] == f"of {message.channel}"
        assert len(message.result) == (2 if "batch" in policy else 1)
    if "batch" in policy:
        assert max(message.result[1] for message in ArchivedMessage.objects.all()) > 1


@pytest.mark.parametrize("atomic", [False, True])
def test_the_policy_holds_for_writes(drain: Drain, register: Register, atomic: bool) -> None:
    def write(delivery: Delivery) -> None:
        sql("INSERT INTO tenant_note VALUES (%s, 'new')", delivery.payload)

    register("write", write, atomic=atomic)
    own = enqueue("write", "acme", channel="acme").id
    other = enqueue("write", "bolt", channel="acme", max_attempts=1).id
    assert drain() == {"completed": 1, "dead_lettered": 1}
    assert where(own) == "completed"
    assert "row-level security" in DeadMessage.objects.get(id=other).errors[0]["message"]
    assert sql("SELECT tenant FROM tenant_note WHERE body = 'new'") == [("acme",)]


@pytest.mark.parametrize("atomic", [False, True])
def test_a_message_without_a_tenant_sees_no_tenants_rows(drain: Drain, register: Register, atomic: bool) -> None:
    register("look", look, atomic=atomic)
    # One slot, so that it comes to the thread and the session that acme's had.
    Channel.objects.create(name="staff", queue="default", context={"database_role": ROLE})
    enqueue("look", channel="acme")
    message = enqueue("look", channel="staff").id
    assert drain(concurrency=1) == {"completed": 2}
    assert ArchivedMessage.objects.get(id=message).result == []


def test_a_message_without_a_role_does_not_run_with_the_workers_rights(drain: Drain, register: Register) -> None:
    register("look", look)
    message = enqueue("look", max_attempts=1).id
    assert drain() == {"dead_lettered": 1}
    assert "'database_role'" in DeadMessage.objects.get(id=message).errors[0]["message"]


@pytest.mark.parametrize("atomic", [False, True])
@pytest.mark.parametrize("batch", [None, 10])
def test_headers_choose_neither_the_role_nor_the_tenant(
    drain: Drain, register: Register, atomic: bool, batch: int | None
) -> None:
    register("look", look_together if batch else look, batch=batch, atomic=atomic)
    [(owner,)] = sql("SELECT current_user")
    forged = [{}, {"database_role": owner}, {"tenant": "bolt"}, {"tenant": "bolt", "database_role": owner}]
    sent = [enqueue("look", channel="acme", headers=headers).id for headers in forged]
    # This channel has no context, and a header must not stand in for it.
    refused = enqueue("look", headers={"tenant": "bolt", "database_role": owner}, max_attempts=1).id
    assert drain() == {"completed": len(sent), "dead_lettered": 1}
    assert {ArchivedMessage.objects.get(id=one).result[0] for one in sent} == {"of acme"}
    assert "'database_role'" in DeadMessage.objects.get(id=refused).errors[0]["message"]


def export(delivery: Delivery) -> Complete:
    with connection.cursor() as cursor, cursor.copy("COPY (SELECT body FROM tenant_note) TO STDOUT") as copy:
        return Complete([row[0] for row in copy.rows()])


def test_a_copy_outside_of_a_transaction_has_the_rows_of_its_tenant_alone(drain: Drain, register: Register) -> None:
    register("export", export)
    message = enqueue("export", channel="bolt").id
    assert drain() == {"completed": 1}
    assert ArchivedMessage.objects.get(id=message).result == ["of bolt"]


@pytest.mark.parametrize("payload", ["ok", "fail"])
@pytest.mark.parametrize("atomic", [False, True])
def test_nothing_is_left_for_the_session(drain: Drain, register: Register, atomic: bool, payload: str) -> None:
    after: list[Any] = []

    def handle(delivery: Delivery) -> None:
        assert notes() == ["of acme"]
        if delivery.payload == "fail":
            raise ValueError("no")

    def plain(delivery: Delivery) -> None:
        assert notes() == ["of acme"]
        with ClientCursor(connection.connection) as cursor:  # nothing of ours is in between
            after.append(cursor.execute("SELECT current_user, current_setting('app.tenant', true)").fetchone())

    register("handle", handle, atomic=atomic)
    register("plain", plain)
    enqueue("handle", payload, channel="acme", max_attempts=1, priority=1)
    enqueue("plain", channel="acme")
    drain(concurrency=1)
    owner = sql("SELECT current_user")[0][0]
    assert after in [[(owner, None)], [(owner, "")]]


def test_a_handler_that_takes_a_new_connection_keeps_its_tenant(drain: Drain, register: Register) -> None:
    def handle(delivery: Delivery) -> Complete:
        before = notes()
        connection.close()
        return Complete([*before, *notes()])

    register("handle", handle)
    message = enqueue("handle", channel="bolt").id
    assert drain() == {"completed": 1}
    assert ArchivedMessage.objects.get(id=message).result == ["of bolt", "of bolt"]


@pytest.mark.parametrize("atomic", [False, True])
def test_a_savepoint_that_is_rolled_back_keeps_the_tenant(drain: Drain, register: Register, atomic: bool) -> None:
    def handle(delivery: Delivery) -> Complete:
        with transaction.atomic():
            try:
                with transaction.atomic():
                    before = notes()
                    raise LookupError
            except LookupError:
                return Complete([*before, *notes()])

    register("handle", handle, atomic=atomic)
    message = enqueue("handle", channel="bolt").id
    assert drain() == {"completed": 1}
    assert ArchivedMessage.objects.get(id=message).result == ["of bolt", "of bolt"]
