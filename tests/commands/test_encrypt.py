"""What is stored is encrypted anew, so that the old key can go."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.core.management import CommandError

from django_pgqueue import codecs, dead_letter, defer, dequeue, enqueue, redrive, retry
from django_pgqueue.flow import notify_event, steps_of
from django_pgqueue.lifecycle.logs import keep_logs, logs_of
from django_pgqueue.lifecycle.sealing import place
from django_pgqueue.models import DeadLetter, Message, Schedule
from tests.lifecycle.test_fernet import NEW, OLD, use
from tests.support.codecs import SECRET
from tests.support.commands import pgqueue

pytestmark = pytest.mark.django_db


def run(*arguments: str) -> str:
    return pgqueue("encrypt", *arguments)


def stored() -> str:
    """Return all that is stored, as text."""
    rows = [*Message.objects.values(), *DeadLetter.objects.values(), *Schedule.objects.values()]
    return repr([{name: bytes(v) if isinstance(v, memoryview) else v for name, v in row.items()} for row in rows])


@pytest.fixture
def filled(settings: Any) -> None:
    """A message of each kind, encrypted with the old key; then the new key is the first."""
    use(settings, [OLD])
    for name in ("waits", "deferred", "failed", "dead"):
        enqueue(name, {"to": SECRET}, body=SECRET.encode())
    waits, deferred, failed, dead = dequeue(limit=4)
    error = {"type": "ValueError", "message": SECRET, "traceback": SECRET}
    defer(waits)
    defer(deferred, state=[SECRET])
    retry(failed, errors=[error], delays=[timedelta(0)])
    dead_letter(dead, reason="refused", details=[SECRET])
    Schedule.objects.create(name="nightly", handler="h", every=timedelta(hours=1), payload={"to": SECRET})
    use(settings, [NEW, OLD])


def test_everything_is_readable_without_the_old_key(settings: Any, filled: None) -> None:
    before = stored()

    out = run("--batch", "2")

    assert out.splitlines() == [
        "messages: 3 encrypted anew", "dead letters: 1 encrypted anew", "schedules: 1 encrypted anew",
        "logs: 0 encrypted anew", "steps: 0 encrypted anew", "events: 0 encrypted anew",
    ]  # fmt: skip
    assert stored() != before
    assert SECRET not in stored()
    use(settings, [NEW])
    redrive([DeadLetter.objects.get().pk])
    found = {delivery.handler: delivery for delivery in dequeue(limit=10)}
    assert len(found) == 4
    assert {delivery.payload["to"] for delivery in found.values()} == {SECRET}
    assert {delivery.body for delivery in found.values()} == {SECRET.encode()}
    assert found["deferred"].state == [SECRET]
    [error] = Message.objects.get(handler="failed").errors
    assert Fernet(NEW).decrypt(error["sealed"]["data"])
    assert Fernet(NEW).decrypt(DeadLetter.objects.get().details["data"])
    assert Fernet(NEW).decrypt(Schedule.objects.get(name="nightly").payload["data"])


def test_steps_events_and_logs_are_readable_without_the_old_key(settings: Any) -> None:
    use(settings, [OLD])
    ids = [enqueue("waits").id, enqueue("dies").id]
    waits, dies = dequeue(limit=2)
    for delivery in (waits, dies):
        for name in ("one", "two"):
            steps_of(delivery)(name, lambda: SECRET)
    keep_logs([waits, dies], [SECRET, SECRET])
    notify_event("early", SECRET)
    assert steps_of(waits).wait("early") == SECRET
    defer(waits)
    dead_letter(dies, reason="refused")
    use(settings, [NEW, OLD])

    out = run("--batch", "1").splitlines()

    assert out[3:] == ["logs: 2 encrypted anew", "steps: 5 encrypted anew", "events: 1 encrypted anew"]
    use(settings, [NEW])
    redrive(dies.id)
    for delivery in dequeue(limit=2):
        step = steps_of(delivery)
        assert step("one", str) == step("two", str) == SECRET
        assert step.wait("early") == SECRET
    for message in ids:
        [log] = logs_of(message)
        assert codecs.opened(log.log, place("default", "default", None)) == SECRET


def test_a_message_keeps_its_place_and_its_attempts(filled: None) -> None:
    kept = ("id", "status", "attempts", "dequeue_at", "lease_token", "handler")
    before = list(Message.objects.order_by("id").values(*kept))
    run()
    assert list(Message.objects.order_by("id").values(*kept)) == before


def test_a_leased_message_is_left_out_and_counted(settings: Any, filled: None) -> None:
    [delivery] = dequeue()

    out = run()

    assert "messages: 2 encrypted anew" in out
    assert "1 messages are leased, and were left out" in out
    assert Fernet(OLD).decrypt(Message.objects.get(pk=delivery.id).payload["data"])


def test_a_plain_payload_stays_as_it_is(settings: Any) -> None:
    enqueue("h", {"plain": 1})
    use(settings, [NEW])
    assert "messages: 0 encrypted anew" in run()
    assert Message.objects.get().payload == {"plain": 1}


def test_a_payload_that_looks_like_ciphertext_stays_a_payload(settings: Any) -> None:
    payload = {"$codec": "fernet", "v": 1, "data": "mine"}
    use(settings, [OLD])
    enqueue("h", payload)
    use(settings, [NEW, OLD])
    run()
    use(settings, [NEW])
    assert [delivery.payload for delivery in dequeue()] == [payload]


def test_a_row_that_no_key_decrypts_ends_the_command_with_an_error(settings: Any, filled: None) -> None:
    use(settings, [NEW])
    before = stored()
    with pytest.raises(CommandError, match="Bring their key back"):
        run()
    assert stored() == before
