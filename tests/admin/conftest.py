"""Shared by the tests of the admin: users with some permissions, messages in every state, and a reader of pages."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from html.parser import HTMLParser
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from django_pgqueue import channel_pause, channel_set, dead_letter, dequeue, enqueue, pop
from django_pgqueue.models import ArchivedMessage, Channel, DeadLetter, Queue, Schedule, SharedLimit, Worker
from django_pgqueue.pipeline.models import Lake, QueueMetric
from tests.support.default_channel import _default_channel  # noqa: F401  (a fixture)

APPS = ("pgqueue", "pgqueue_pipeline", "pgqueue_flow")
OF_PIPELINE = ("lake", "queuemetric")
MODELS = (
    "queue", "channel", "message", "archivedmessage", "deadletter", "worker", "schedule", "sharedlimit", *OF_PIPELINE,
)  # fmt: skip
VIEW = tuple(f"view_{model}" for model in MODELS)


@pytest.fixture
def admin_user(db: None) -> User:
    """In place of pytest-django's, which spends a second on the hash of a password."""
    return User.objects.create_superuser("admin")


@pytest.fixture
def staff() -> Callable[..., Client]:
    """`staff("view_channel", "pause_channel")`: the browser of a user with just these permissions."""

    def staff(*codenames: str) -> Client:
        user = User.objects.create_user(f"user{User.objects.count()}", is_staff=True)
        permissions = Permission.objects.filter(content_type__app_label__in=APPS, codename__in=codenames)
        assert len(permissions) == len(codenames)
        user.user_permissions.set(permissions)
        client = Client()
        client.force_login(user)
        return client

    return staff


@pytest.fixture
def viewer(staff: Callable[..., Client]) -> Client:
    return staff(*VIEW)


@pytest.fixture
def page(admin_client: Client) -> Callable[..., str]:
    """`page("channel")`, `page("message", 5)`: the text of a list or of one object, for a superuser."""

    def page(model: str, pk: object = None, **query: object) -> str:
        response = admin_client.get(address(model, pk), query)
        assert response.status_code == 200, response
        return response.content.decode()

    return page


def address(model: str, pk: object = None) -> str:
    """`address("channel")`, `address("lake", "nightly")`: the list of a model, or the page of one object."""
    app = "pgqueue_pipeline" if model in OF_PIPELINE else "pgqueue_flow" if model == "batchrecord" else "pgqueue"
    page = f"admin:{app}_{model}"
    return reverse(f"{page}_change", args=[pk]) if pk else reverse(f"{page}_changelist")


def act(client: Client, model: str, action: str, *pks: int, **data: Any) -> HttpResponse:
    """Choose an action for some rows of a list; `confirmed="yes"` answers the page in between."""
    posted = {"action": action, "_selected_action": [str(pk) for pk in pks], "select_across": "0", **data}
    if "confirmed" not in data:
        posted["index"] = "0"
    return client.post(address(model), posted)


def notices(response: HttpResponse) -> str:
    """Return the messages that the next page shows about this request."""
    return " | ".join(str(message) for message in response.wsgi_request._messages._queued_messages)


def logged() -> list[tuple[str, str, str]]:
    """Return the admin's log: object, text, user."""
    rows = LogEntry.objects.order_by("pk").select_related("user")
    return [(entry.object_repr, entry.get_change_message(), entry.user.username) for entry in rows]


def make_dead(count: int = 1, *, reason: str = "refused", details: Any = None, **message: Any) -> list[DeadLetter]:
    """Messages that died on their way: enqueued, delivered, refused."""
    message.setdefault("handler", "mail.send")
    queue = message.get("queue", "default")
    for _ in range(count):
        enqueue(**message)
    left, ids = count, []
    while left:
        taken = dequeue(queue, limit=left)
        assert taken
        dead_letter(taken, reason=reason, details=details)
        ids += [delivery.id for delivery in taken]
        left -= len(taken)
    return list(DeadLetter.objects.filter(pk__in=ids).order_by("pk"))


def make_metric(**values: Any) -> QueueMetric:
    """The rollup of a queue, if no channel or handler is given."""
    counts = (
        "enqueued",
        "completed",
        "popped",
        "purged",
        "dropped",
        "cancelled",
        "dead",
        "attempts",
        "retries",
        "sla_breaches",
    )
    level = "handler" if values.get("handler") else "channel" if values.get("channel") else "queue"
    given = {"grain": "hour", "bucket_at": timezone.now(), "queue": "default", "run_seconds": 0, "retry_seconds": 0}
    return QueueMetric(**dict.fromkeys(counts, 0) | {"level": level} | given | values)


@pytest.fixture
def one_of_each() -> dict[str, int]:
    """The primary keys of an object of each model, and of the other subjects of actions."""
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
        "sharedlimit": SharedLimit.objects.create(name="stripe", max_concurrency=2, **paused).pk,
        "lake": Lake.objects.create(name="nightly", path="/lake", exported_xid=1, rows={}).pk,
        "queuemetric": saved(make_metric()),
        "schedule": Schedule.objects.create(name="nightly", handler="mail.send", cron="@daily").pk,
    }


def saved(item: QueueMetric) -> int:
    item.save()
    return item.pk


class Page(HTMLParser):
    """The tags of a page, as a browser finds them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def inline_code(self) -> list[tuple[str, dict[str, str | None]]]:
        """Return the elements that a strict Content-Security-Policy forbids."""
        return [
            (tag, attributes)
            for tag, attributes in self.tags
            if tag == "style"
            or (tag == "script" and "src" not in attributes)
            or "style" in attributes
            or any(re.match(r"on\w", name) for name in attributes)
            or any((value or "").strip().lower().startswith("javascript:") for value in attributes.values())
        ]

    def canaries(self) -> list[tuple[str, dict[str, str | None]]]:
        return [(tag, attributes) for tag, attributes in self.tags if tag == "canary" or "canary" in attributes]


@pytest.fixture
def tenant() -> Channel:
    """A channel without messages. It is read again, because the tests change it."""
    return Channel.objects.get(pk=channel_set(channel="acme"))
