"""FernetCodec: one key for all or keys by tenant, and keys that change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.db import connection

from django_pgqueue import channel_set, complete, dequeue, enqueue, redrive
from django_pgqueue.checks import configuration
from django_pgqueue.exceptions import CodecUnavailable
from django_pgqueue.models import ArchivedMessage, Channel, DeadLetter, Message
from tests.support.codecs import SECRET
from tests.support.refusals import refused

pytestmark = pytest.mark.django_db

OLD, NEW = Fernet.generate_key().decode(), Fernet.generate_key().decode()
ACME, OTHER = Fernet.generate_key().decode(), Fernet.generate_key().decode()
FERNET = "django_pgqueue.codecs.FernetCodec"
VAULT = {"acme": ACME, "other": OTHER}


def of_tenant(queue: str, channel: str, context: Mapping[str, Any]) -> list[str]:
    """A key for each tenant, which the context of the channel names."""
    return [VAULT[context["tenant"]]]


def use(settings: Any, keys: Any) -> None:
    settings.DJANGO_PGQUEUE = {"PAYLOAD_CODEC": FERNET, "PAYLOAD_KEYS": keys}


def test_the_database_has_ciphertext_and_the_handler_gets_the_payload(settings: Any) -> None:
    use(settings, [NEW])
    enqueue("h", {"to": SECRET}, body=SECRET.encode())
    [row] = Message.objects.all()
    assert row.payload["$codec"] == "fernet"
    assert row.payload["v"] == 1
    assert Fernet(NEW).decrypt(row.payload["data"]) == b'{"to": "%s"}' % SECRET.encode()
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_jsonb(m)::text FROM pgqueue_message AS m")
        [(text,)] = cursor.fetchall()
    assert SECRET not in text
    assert SECRET.encode().hex() not in text
    [delivery] = dequeue()
    assert (delivery.payload, delivery.body) == ({"to": SECRET}, SECRET.encode())
    complete(delivery, results=[[SECRET]])
    assert Fernet(NEW).decrypt(ArchivedMessage.objects.get().result["data"]) == b'["%s"]' % SECRET.encode()


def test_the_first_key_encrypts_and_all_decrypt(settings: Any) -> None:
    use(settings, [OLD])
    enqueue("h", "old")
    use(settings, [NEW, OLD])
    enqueue("h", "new")
    assert Fernet(NEW).decrypt(Message.objects.order_by("-id")[0].payload["data"]) == b'"new"'
    assert [delivery.payload for delivery in dequeue(limit=2)] == ["old", "new"]


def test_without_its_key_a_message_becomes_a_dead_letter_that_comes_back_with_it(settings: Any) -> None:
    use(settings, [OLD])
    sent = enqueue("h", SECRET).id
    use(settings, [NEW])
    assert dequeue() == []
    letter = DeadLetter.objects.get(pk=sent)
    assert letter.reason == "undecodable"
    assert "no key of PAYLOAD_KEYS for default/default" in letter.details["message"]
    use(settings, [NEW, OLD])
    redrive([sent])
    assert dequeue()[0].payload == SECRET


def test_each_tenant_has_its_keys(settings: Any) -> None:
    use(settings, of_tenant)
    for name in VAULT:
        channel_set(channel=name)
        Channel.objects.filter(name=name).update(context={"tenant": name})
        enqueue("h", name, channel=name)
    for row in Message.objects.select_related("channel"):
        assert Fernet(VAULT[row.channel.name]).decrypt(row.payload["data"]) == f'"{row.channel.name}"'.encode()
    assert sorted(delivery.payload for delivery in dequeue(limit=9)) == ["acme", "other"]
    with refused(CodecUnavailable, "KeyError for default/default"):
        enqueue("h", SECRET)


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ([], "has no key"),
        (["short"], "key 1 of PAYLOAD_KEYS is not a key of Fernet"),
        ([NEW, 5], "key 2 of PAYLOAD_KEYS"),
        (NEW, "a text that is not the dotted path"),
        ("tests.support.codecs.SECRET", "cannot be called"),
    ],
    ids=["none", "not a key", "second not a key", "a key for a path", "not callable"],
)
def test_the_check_finds_wrong_keys_and_shows_none(settings: Any, keys: Any, problem: str) -> None:
    use(settings, keys)
    [message] = configuration.check_settings()
    assert message.id == "pgqueue.E023"
    assert problem in message.msg
    assert NEW not in message.msg
