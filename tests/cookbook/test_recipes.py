"""The recipes of docs/how-to/cookbook.md do what they promise."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.util import module_from_spec, spec_from_file_location
from smtplib import SMTPDataError
from threading import Thread
from types import ModuleType
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.apps import apps
from django.db import connection, transaction

from django_pgqueue import channel_set, dequeue, limits, redrive, schedules
from django_pgqueue.maintenance.declared import sync_declared
from django_pgqueue.models import ArchivedMessage, DeadLetter
from django_pgqueue.testing import Clock, drain, fire_schedules
from tests.support.markdown import links, page
from tests.support.paths import REPOSITORY

FOLDER = REPOSITORY / "examples" / "cookbook"
Load = Callable[[str], Any]


@pytest.fixture
def load(db: None, handlers_restored: None) -> Iterator[Load]:
    """Import a recipe as a project would: its handlers and limits are known, its models have tables."""
    channel_set(channel="default")
    declared, declared_limits = list(schedules._declared), dict(limits._declared)

    def load(name: str) -> ModuleType:
        spec = spec_from_file_location(f"cookbook_{name}", FOLDER / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        sync_declared()
        for model in apps.all_models.get("cookbook", {}).values():
            with connection.schema_editor() as editor:
                editor.create_model(model)
        return module

    yield load
    apps.all_models.pop("cookbook", None)
    schedules._declared[:] = declared
    limits._declared.clear()
    limits._declared.update(declared_limits)


class Receiver(BaseHTTPRequestHandler):
    """Keeps what it gets, and answers with the statuses of `server.answers`, then 200."""

    def do_POST(self) -> None:
        server: Any = self.server
        body = self.rfile.read(int(self.headers["Content-Length"]))
        server.received.append((dict(self.headers), body))
        self.send_response(server.answers.pop(0) if server.answers else 200)
        self.send_header("Retry-After", "7")
        self.end_headers()

    def log_message(self, *arguments: Any) -> None: ...


@pytest.fixture
def receiver() -> Iterator[Any]:
    server: Any = HTTPServer(("127.0.0.1", 0), Receiver)
    server.received, server.answers = [], []
    server.url = f"http://127.0.0.1:{server.server_port}/hook"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_webhook_is_signed_and_has_the_same_id_at_each_attempt(load: Load, receiver: Any) -> None:
    recipe = load("webhooks")
    recipe.subscribe("acme")
    recipe.emit("acme", receiver.url, {"paid": 7})
    receiver.answers += [429]

    first = drain()
    assert [(handled.event, handled.outcome.delay) for handled in first] == [("deferred", timedelta(seconds=7))]
    assert drain(with_scheduled=True).counts == {"completed": 1}

    (headers, body), (again, _) = receiver.received
    moment = int(headers["Webhook-Signature"].split(",")[0].removeprefix("t="))
    expected = recipe.signature("secret of acme", moment, body)
    assert (json.loads(body), headers["Webhook-Signature"]) == ({"paid": 7}, f"t={moment},v1={expected}")
    assert headers["Webhook-Id"] == again["Webhook-Id"]


def test_a_webhook_whose_address_is_gone_is_a_dead_letter(load: Load, receiver: Any) -> None:
    recipe = load("webhooks")
    recipe.subscribe("acme")
    recipe.emit("acme", receiver.url, {"paid": 7})
    receiver.answers += [410]

    drain()

    assert DeadLetter.objects.get().reason == "gone"


def test_a_customer_gets_two_webhooks_at_once_and_the_others_are_not_behind_it(load: Load) -> None:
    recipe = load("webhooks")
    for customer, count in (("acme", 9), ("bolt", 1)):
        recipe.subscribe(customer)
        for number in range(count):
            recipe.emit(customer, "http://127.0.0.1:9/", {"number": number})

    assert sorted(delivery.channel for delivery in dequeue(limit=10)) == ["acme", "acme", "bolt"]


def test_a_night_has_one_message_for_each_tenant(load: Load, pgqueue_clock: Clock) -> None:
    recipe = load("nightly")
    recipe.tenants = lambda: (f"tenant-{number}" for number in range(50))
    for name in recipe.tenants():
        recipe.add_tenant(name)

    fire_schedules()  # it is planned
    pgqueue_clock.tick(timedelta(days=1))
    fire_schedules()

    assert [handled.delivery.handler for handled in drain()].count("report.one") == 50
    assert ArchivedMessage.objects.get(handler="report.all").result == {"tenants": 50}


def test_a_customer_has_one_change_at_a_time_and_a_document_too(load: Load) -> None:
    recipe = load("one_at_a_time")
    recipe.add_customer("acme")
    channel_set(channel="bolt")
    for number in (1, 2):
        recipe.change("acme", number)
        recipe.change_document("bolt", 7, number)
        recipe.change_document("bolt", 8, number)

    got = sorted((delivery.channel, delivery.payload["change"]) for delivery in dequeue(limit=10))
    assert got == [("acme", 1), ("bolt", 1), ("bolt", 1)]


def test_many_saves_are_one_update_of_the_index_and_a_save_after_it_is_another(load: Load) -> None:
    recipe, written = load("search_index"), []
    recipe.write_to_index = lambda product, name: written.append(name)
    product = recipe.Product.objects.create(name="a")
    for name in ("b", "c", "d"):
        recipe.rename(product.pk, name)

    assert drain().counts == {}
    assert drain(with_scheduled=True).counts == {"completed": 1}
    recipe.rename(product.pk, "e")
    drain(with_scheduled=True)

    assert written == ["d", "e"]


def test_a_customer_spends_its_tokens_and_no_more(load: Load, pgqueue_clock: Clock) -> None:
    recipe = load("llm")
    recipe.add_customer("acme")
    for _ in range(3):
        recipe.ask("acme", "x" * 6_000)  # 2,500 tokens each, as estimated; 6,000 in truth

    assert drain().counts == {"completed": 1}
    assert ArchivedMessage.objects.get().result["text"].startswith("XXX")
    pgqueue_clock.tick(timedelta(seconds=10))
    assert drain().counts == {}
    pgqueue_clock.tick(timedelta(seconds=30))
    assert drain().counts == {"completed": 1}


def test_an_urgent_mail_goes_first_and_a_busy_provider_uses_no_attempt(load: Load, pgqueue_clock: Clock) -> None:
    recipe, answers, sent = load("mails"), [None, SMTPDataError(454, b"Throttling failure")], []

    def send_mail(subject: str, text: str, sender: None, to: list[str]) -> None:
        if answers and (error := answers.pop(0)) is not None:
            raise error
        sent.append(subject)

    recipe.send_mail = send_mail
    recipe.mail("a@example.org", "Newsletter", "…")
    recipe.mail("b@example.org", "Password", "…", urgent=True)
    for event in ("completed", "deferred"):
        pgqueue_clock.tick(timedelta(seconds=1))
        assert drain(limit=1).counts == {event: 1}
    pgqueue_clock.tick(timedelta(minutes=1))
    [again] = drain()

    assert (again.event, again.delivery.attempt) == ("completed", 1)
    assert sent == ["Password", "Newsletter"]


def test_the_progress_of_an_import_is_seen_and_its_attempt_stays(load: Load) -> None:
    recipe, written = load("imports"), []
    recipe.write = written.extend
    message = recipe.start(1_200)

    assert recipe.progress(message) == {"state": "running", "done": 0}
    drain(limit=2)
    assert recipe.progress(message) == {"state": "running", "done": 1_000}
    [last] = drain()
    assert recipe.progress(message) == {"state": "completed", "done": 1_200}

    assert last.delivery.attempt == 1
    assert written == list(range(1_200))


def test_the_events_of_an_import_end_with_it(load: Load) -> None:
    recipe = load("imports")
    message = recipe.start(700)

    async def watch() -> list[Any]:
        seen = []
        async for event in recipe.stream(message, every=0):
            seen.append(json.loads(event.removeprefix("data: ")))
            await recipe.sync_to_async(drain)(limit=1)
        return seen

    assert [event["state"] for event in async_to_sync(watch)()] == ["running", "running", "completed"]


def test_each_step_of_a_workflow_follows_once_and_none_after_a_refusal(load: Load) -> None:
    recipe = load("steps")
    channel_set(channel="acme")
    recipe.uploaded("acme", "photo.png")
    recipe.uploaded("acme", "virus.exe")

    done = [handled.delivery.handler for handled in drain() if handled.event == "completed"]

    assert done == ["upload.scan", "upload.resize", "upload.announce"]
    assert DeadLetter.objects.get().reason == "infected"


def test_events_leave_in_their_order_and_not_for_what_is_rolled_back(load: Load, receiver: Any) -> None:
    recipe = load("outbox")
    recipe.TARGET = receiver.url
    order = recipe.Order.objects.create(status="new")
    recipe.change(order.pk, "paid")
    with transaction.atomic():
        recipe.change(order.pk, "lost")
        transaction.set_rollback(True)
    recipe.change(order.pk, "sent")
    receiver.answers += [503]

    drain(raise_errors=False)
    drain(with_scheduled=True)

    assert [json.loads(body)["status"] for _, body in receiver.received] == ["paid", "paid", "sent"]


def test_a_payment_whose_worker_dies_after_the_charge_is_charged_once(load: Load) -> None:
    recipe, charges = load("payments"), {}

    def charge_card(amount: str, *, idempotency_key: str) -> str:
        known = idempotency_key in charges
        charge = charges.setdefault(idempotency_key, f"charge {amount}")
        if not known:
            raise ConnectionError("charged, and then the connection broke")
        return charge

    recipe.charge_card = charge_card
    payment = recipe.pay("20.00")
    drain(raise_errors=False)
    drain(with_scheduled=True)

    payment.refresh_from_db()
    assert payment.charge == "charge 20.00"
    assert len(charges) == 1


def test_a_declined_payment_can_be_redriven(load: Load) -> None:
    recipe = load("payments")

    def declined(amount: str, *, idempotency_key: str) -> str:
        raise recipe.Declined("no money")

    recipe.charge_card = declined
    payment = recipe.pay("20.00")
    drain()
    letter = DeadLetter.objects.get(reason="declined")
    recipe.charge_card = lambda amount, *, idempotency_key: idempotency_key
    redrive([letter.pk])
    drain()

    payment.refresh_from_db()
    assert payment.charge == f"payment-{payment.pk}"


def test_the_page_has_each_recipe() -> None:
    linked = {link.rpartition("/")[2] for link in links(REPOSITORY / "docs/how-to/cookbook.md") if link.endswith(".py")}

    assert linked == {file.name for file in FOLDER.glob("*.py")}
    assert page("docs/how-to/cookbook.md")
