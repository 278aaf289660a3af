"""The HTTP door: each operation, its errors, and the fence around a tenant."""

from __future__ import annotations

import re
from typing import Any

from django.test import Client

from django_pgqueue import channel_set, complete, dead_letter, dequeue, enqueue
from django_pgqueue.flow import progress, progress_token
from django_pgqueue.http.models import Key
from django_pgqueue.http.operations import OPERATIONS
from django_pgqueue.models import Channel, DeadLetter, Message
from tests.http.conftest import Ask, make_key
from tests.support.cases import cases
from tests.support.codecs import SECRET, Toy

MAIL = {"handler": "mail.send", "payload": {"to": "ann"}}


def error(response: Any) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["code"]


def dead(channel: str = "acme") -> int:
    sent = enqueue("mail.send", channel=channel).id
    dead_letter(dequeue(), reason="refused", details={"type": "ValueError", "message": SECRET})
    return sent


def test_a_message_is_enqueued_in_the_channel_of_the_key(ask: Ask) -> None:
    body = {**MAIL, "delay": 60, "priority": 3, "dedupe_key": "order-7", "order_key": "ann"}
    response = ask("POST", "messages", body)
    message = Message.objects.select_related("channel").get()
    assert response.status_code == 201
    assert (response.json()["id"], response.json()["outcome"]) == (message.pk, "created")
    assert (message.channel.name, message.handler, message.payload) == ("acme", "mail.send", {"to": "ann"})
    assert (message.priority, message.dedupe_key, message.order_key) == (3, "order-7", "ann")
    assert round((message.dequeue_at - message.created_at).total_seconds()) == 60
    again = ask("POST", "messages", body)
    assert (again.status_code, again.json()["outcome"], again.json()["id"]) == (200, "duplicate", message.pk)


def test_the_status_follows_a_message_to_its_end(ask: Ask) -> None:
    sent = ask("POST", "messages", MAIL).json()["id"]
    seen = ask("GET", f"messages/{sent}").json()
    assert (seen["state"], seen["handler"], seen["attempts"]) == ("ready", "mail.send", 0)
    assert ask("GET", f"messages/{sent}/result").status_code == 202
    [delivery] = dequeue()
    progress(delivery, 1, of=4, note="begun")
    seen = ask("GET", f"messages/{sent}").json()
    assert (seen["state"], seen["progress"]["part"], seen["progress"]["note"]) == ("leased", 0.25, "begun")
    complete([delivery], results=[{"sent": True}])
    seen = ask("GET", f"messages/{sent}").json()
    assert (seen["state"], "ended_at" in seen, "due_at" in seen) == ("completed", True, False)
    result = ask("GET", f"messages/{sent}/result")
    assert (result.status_code, result.json()) == (200, {"id": sent, "state": "completed", "result": {"sent": True}})


def test_a_dead_letter_shows_its_reason_and_no_error_and_is_redriven_once(ask: Ask) -> None:
    sent = dead()
    seen = ask("GET", f"messages/{sent}")
    assert (seen.json()["state"], seen.json()["reason"], seen.json()["redriven_to"]) == ("dead", "refused", None)
    assert SECRET not in seen.content.decode()
    assert ask("GET", f"messages/{sent}/result").json() == {"id": sent, "state": "dead", "result": None}
    redriven = ask("POST", f"messages/{sent}/redrive")
    assert (redriven.status_code, redriven.json()) == (201, {"id": Message.objects.get().pk})
    assert ask("GET", f"messages/{sent}").json()["redriven_to"] == redriven.json()["id"]
    assert error(ask("POST", f"messages/{sent}/redrive")) == (409, "not_dead")


def test_a_message_is_cancelled(ask: Ask) -> None:
    sent = enqueue("mail.send", channel="acme").id
    body = {"reason": "the customer has left"}
    assert ask("POST", f"messages/{sent}/cancel", body).json() == {"id": sent, "outcome": "cancelled"}
    assert ask("POST", f"messages/{sent}/cancel").json() == {"id": sent, "outcome": "settled"}
    assert ask("GET", f"messages/{sent}").json()["state"] == "cancelled"


def test_the_channel_is_paused_and_resumed(ask: Ask) -> None:
    assert ask("POST", "channel/pause", {"reason": "maintenance", "minutes": 5}).json()["paused"]
    acme = Channel.objects.get(name="acme")
    assert (acme.paused_at is None, acme.paused_until is None, acme.pause_reason) == (False, False, "maintenance")
    assert Channel.objects.get(name="globex").paused_at is None
    assert ask("POST", "channel/resume").json() == {"paused": False}
    assert Channel.objects.get(name="acme").paused_at is None


def test_a_browser_reads_progress_with_its_token_alone(ask: Ask) -> None:
    token = ask("POST", "messages", MAIL).json()["progress_token"]
    [delivery] = dequeue()
    progress(delivery, 3, of=4, note="packing")
    seen = ask("GET", f"progress/{token}", key=None)
    assert (seen.status_code, seen.json()["part"], seen.json()["note"]) == (200, 0.75, "packing")
    assert error(ask("GET", f"progress/{token}x", key=None)) == (404, "not_found")
    assert error(ask("GET", f"progress/{delivery.id}", key=None)) == (404, "not_found")
    assert progress_token(delivery.id).split(":")[0] == token.split(":")[0]


def test_what_a_codec_encrypts_is_decoded_for_its_tenant(ask: Ask, settings: Any) -> None:
    settings.DJANGO_PGQUEUE = {"PAYLOAD_CODEC": Toy()}
    sent = ask("POST", "messages", {**MAIL, "payload": {"said": SECRET}}).json()["id"]
    assert SECRET not in str(Message.objects.get().payload)
    [delivery] = dequeue()
    complete([delivery], results=[{"said": SECRET}])
    assert ask("GET", f"messages/{sent}/result").json()["result"] == {"said": SECRET}
    settings.DJANGO_PGQUEUE["PAYLOAD_CODEC"].is_down = True
    assert error(ask("GET", f"messages/{sent}/result")) == (503, "codec_unavailable")


# The fence


def paths(pk: int) -> list[tuple[str, str]]:
    """Every operation on a message."""
    return [(each.method, each.path.replace("<int:pk>", str(pk))) for each in OPERATIONS if "<int:pk>" in each.path]


@cases("place", ["ready", "leased", "archived", "dead"])
def test_the_messages_of_another_tenant_do_not_exist(ask: Ask, place: str) -> None:
    if place == "dead":
        sent = dead("globex")
    else:
        sent = enqueue("mail.send", channel="globex").id
        taken = dequeue() if place != "ready" else []
        if place == "archived":
            complete(taken, results=["secret"])
    for method, path in paths(sent):
        answer = ask(method, path)
        assert error(answer) == (404, "not_found"), path
        assert answer.content == ask(method, path.replace(str(sent), "987654321")).content
    assert Message.objects.count() == (place in ("ready", "leased"))
    assert not DeadLetter.objects.exclude(redriven_at=None).exists()
    assert len(paths(sent)) == 4
    assert ask("GET", f"messages/{sent}", key=make_key("globex")).status_code == 200


def test_a_dedupe_key_of_another_tenant_finds_nothing(ask: Ask) -> None:
    other = enqueue("mail.send", channel="globex", dedupe_key="order-7").id
    assert ask("POST", "messages", {**MAIL, "dedupe_key": "order-7"}).json()["id"] != other


def test_the_same_channel_of_another_queue_is_another_tenant(ask: Ask) -> None:
    channel_set(channel="acme", queue="mail")
    sent = enqueue("mail.send", channel="acme", queue="mail").id
    assert error(ask("GET", f"messages/{sent}")) == (404, "not_found")


def test_without_a_valid_key_nothing_is_said(ask: Ask) -> None:
    sent, gone = enqueue("mail.send", channel="acme").id, make_key()
    assert ask("GET", f"messages/{sent}", key=gone).status_code == 200
    Key.objects.latest("pk").delete()
    for key in (None, gone, "", "pgq_guessed", Key.objects.get().digest):
        for method, path in [*paths(sent), ("POST", "messages"), ("POST", "channel/pause"), ("POST", "channel/resume")]:
            answer = ask(method, path, key=key)
            assert error(answer) == (401, "no_key")
            assert answer["WWW-Authenticate"] == "Bearer"
    assert Message.objects.get().cancelled_at is None


@cases("verb", Key.Verb.values)
def test_a_key_does_only_what_its_verbs_say(ask: Ask, verb: str) -> None:
    sent = enqueue("mail.send", channel="acme").id
    key = make_key(verbs=[each for each in Key.Verb.values if each != verb])
    refused = [each for each in OPERATIONS if each.verb == verb]
    assert refused
    for each in refused:
        path = each.path.replace("<int:pk>", str(sent))
        assert error(ask(each.method, path, MAIL if path == "messages" else None, key=key)) == (403, "verb_not_allowed")
    assert Message.objects.get().pk == sent


def test_a_key_enqueues_for_its_handlers_alone(ask: Ask) -> None:
    assert error(ask("POST", "messages", {"handler": "billing.refund"})) == (403, "handler_not_allowed")
    assert not Message.objects.exists()


# Errors


@cases(
    ("body", "status", "code"),
    [
        (b"{", 400, "not_json"),
        (b'{"handler": "mail.send", "payload": NaN}', 400, "not_json"),
        (b'{"handler": "mail.send", "delay": Infinity}', 400, "not_json"),
        (b"[" * 100_000, 400, "not_json"),
        (b"\xff", 400, "not_json"),
        (b"1" * 10_000, 400, "not_json"),
        ([], 422, "invalid"),
        ({}, 422, "invalid"),
        ({"handler": 5}, 422, "invalid"),
        ({**MAIL, "queue": "mail"}, 422, "invalid"),
        ({**MAIL, "channel": "globex"}, 422, "invalid"),
        ({**MAIL, "headers": {}}, 422, "invalid"),
        ({**MAIL, "delay": -1}, 422, "invalid"),
        ({**MAIL, "delay": 1e300}, 422, "invalid"),
        ({**MAIL, "delay": True}, 422, "invalid"),
        ({**MAIL, "priority": 40_000}, 422, "invalid"),
        ({**MAIL, "priority": 1.5}, 422, "invalid"),
        ({**MAIL, "dedupe_key": "x" * 1000}, 422, "invalid_message"),
        ({**MAIL, "payload": "\0"}, 422, "invalid_message"),
        ({**MAIL, "payload": {"$codec": "toy", "v": 1, "data": ""}}, 422, "invalid_message"),
    ],
)
def test_a_body_that_does_not_fit_is_refused(ask: Ask, body: Any, status: int, code: str) -> None:
    answer = ask("POST", "messages", body)
    assert error(answer) == (status, code)
    assert len(answer.content) < 1000
    assert not Message.objects.exists()


def test_a_body_is_bounded(ask: Ask, settings: Any) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 100
    assert error(ask("POST", "messages", {**MAIL, "payload": "x" * 100})) == (413, "too_large")
    assert ask("POST", "messages", MAIL).status_code == 201


def test_a_full_a_released_and_a_missing_channel_are_told_apart(ask: Ask) -> None:
    channel_set(channel="acme", max_size=1)
    assert ask("POST", "messages", MAIL).status_code == 201
    full = ask("POST", "messages", MAIL)
    assert (error(full), full["Retry-After"]) == ((429, "channel_full"), "1")
    Channel.objects.filter(name="acme").update(released_at="2020-01-01T00:00Z")
    assert error(ask("POST", "messages", MAIL)) == (409, "channel_released")
    assert error(ask("POST", "messages", MAIL, key=make_key("gone"))) == (404, "channel_not_found")
    assert error(ask("POST", "channel/pause", key=make_key("gone"))) == (404, "channel_not_found")


def test_other_methods_are_refused(ask: Ask) -> None:
    assert error(ask("DELETE", "messages/1")) == (405, "method_not_allowed")
    assert error(ask("GET", "channel/pause")) == (405, "method_not_allowed")
    assert ask("GET", f"messages/{9**30}").status_code == 404


def test_nothing_is_cached(ask: Ask) -> None:
    sent = enqueue("mail.send", channel="acme").id
    assert "no-store" in ask("GET", f"messages/{sent}")["Cache-Control"]


# OpenAPI


def test_the_description_has_every_operation_as_it_answers(ask: Ask) -> None:
    found = ask("GET", "openapi.json", key=None).json()
    assert (found["openapi"], found["servers"]) == ("3.1.0", [{"url": "/queue"}])
    described = {(method.upper(), path): each for path, by in found["paths"].items() for method, each in by.items()}
    assert len(described) == len(OPERATIONS) == 8
    assert len({each["operationId"] for each in described.values()}) == 8
    for (_, path), each in described.items():
        assert {place["name"] for place in each["parameters"]} == set(re.findall(r"{(\w+)}", path))
        assert each["summary"].endswith(".")
        assert (each["security"] == []) == path.startswith("/progress")
    [enqueued] = [each for (_, path), each in described.items() if path == "/messages"]
    schema = enqueued["requestBody"]["content"]["application/json"]["schema"]
    assert (schema["required"], schema["additionalProperties"]) == (["handler"], False)
    assert ask("POST", "messages", MAIL).status_code == 201
    assert {"200", "201"} < set(enqueued["responses"])


# Keys


def test_the_admin_shows_a_new_key_once_and_stores_its_digest(ask: Ask, admin_client: Client) -> None:
    given = {
        "name": "web shop",
        "queue": "default",
        "channel": "acme",
        "verbs": ["enqueue"],
        "handlers": "mail.send\r\n",
    }
    page = admin_client.post("/admin/pgqueue_http/key/add/", given, follow=True).content.decode()
    [secret] = re.findall(r"pgq_[\w-]{43}", page)
    key = Key.objects.get(name="web shop")
    assert (key.verbs, key.channel) == (["enqueue"], "acme")
    assert ask("POST", "messages", MAIL, key=secret).status_code == 201
    change = f"/admin/pgqueue_http/key/{key.pk}/change/"
    for path in ("/admin/pgqueue_http/key/", change):
        page = admin_client.get(path).content.decode()
        assert "web shop" in page
        assert secret not in page
        assert key.digest not in page
    edited = admin_client.post(change, {**given, "verbs": ["status", "cancel"]}, follow=True).content.decode()
    assert "pgq_" not in edited
    assert error(ask("POST", "messages", MAIL, key=secret)) == (403, "verb_not_allowed")
    admin_client.post(f"/admin/pgqueue_http/key/{key.pk}/delete/", {"post": "yes"})
    assert error(ask("POST", "messages", MAIL, key=secret)) == (401, "no_key")


def test_an_unknown_verb_is_refused_in_the_admin(admin_client: Client) -> None:
    given = {"name": "x", "queue": "default", "channel": "acme", "verbs": ["drop"], "handlers": ""}
    assert "errorlist" in admin_client.post("/admin/pgqueue_http/key/add/", given).content.decode()
