"""The content of messages is shown as it is, and never as part of the page."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.admin import AdminSite
from django.contrib.admin.utils import quote
from django.test import Client
from django.urls import include, path
from django.utils import timezone
from django.utils.html import strip_tags

from django_pgqueue import channel_pause, channel_set, complete, dead_letter, dequeue, enqueue, retry, sweep
from django_pgqueue.admin import (
    ArchivedMessageAdmin,
    ChannelAdmin,
    DeadLetterAdmin,
    MessageAdmin,
    WorkerAdmin,
    rendering,
)
from django_pgqueue.models import ArchivedMessage, Channel, DeadLetter, Message, Worker
from tests.admin.conftest import Page, act, address
from tests.support.cases import cases

Pages = Callable[..., str]
CANARY = """"'><canary></span></pre><img canary src=x onerror=alert(1)><script canary>alert(1)</script>"""


@pytest.fixture
def poisoned() -> dict[str, int]:
    """Rows whose every text that comes from outside tries to break out of the page."""
    error = {"type": CANARY, "message": CANARY, "traceback": CANARY, CANARY: CANARY}
    channel_set(channel=CANARY, queue=CANARY[:100])
    where = {"queue": CANARY[:100], "channel": CANARY}
    for n in range(3):
        enqueue(
            CANARY,
            {CANARY: [CANARY]},
            body=CANARY.encode(),
            headers={CANARY: CANARY},
            dedupe_key=f"{n}{CANARY}",
            **where,
        )
    done, dead, again = dequeue(where["queue"], limit=3, worker=CANARY)
    complete(done, results=[{CANARY: CANARY}])
    dead_letter(dead, reason=CANARY, details=error)
    retry(again, errors=[error], delays=[timedelta(0)])
    dequeue(where["queue"], worker=CANARY)
    channel_pause(channel=CANARY, queue=where["queue"], reason=CANARY)
    Worker.objects.create(name=CANARY, hostname=CANARY, pid=1, queues=[CANARY], concurrency=1, version=CANARY[:50])
    return {
        "channel": Channel.objects.get(name=CANARY).pk,
        "message": again.id,
        "archivedmessage": done.id,
        "deadletter": dead.id,
        "worker": CANARY,
    }


def test_no_text_of_a_message_becomes_part_of_a_page(
    admin_client: Client, page: Pages, poisoned: dict[str, int]
) -> None:
    pages = [reply for model, pk in poisoned.items() for reply in (page(model), page(model, quote(pk)))]
    pages += [
        page("message", channel=poisoned["channel"], queue=CANARY[:100], handler=CANARY),
        page("deadletter", reason=CANARY),
        act(admin_client, "channel", "pause", poisoned["channel"]).content.decode(),
        act(admin_client, "channel", "purge", poisoned["channel"]).content.decode(),
        act(admin_client, "deadletter", "redrive", poisoned["deadletter"]).content.decode(),
        act(admin_client, "deadletter", "edit", poisoned["deadletter"]).content.decode(),
        page("message", worker=CANARY),
        *(
            act(admin_client, "message", action, poisoned["message"]).content.decode()
            for action in ("cancel", "retry_now", "reschedule", "edit", "discard", "release_leases")
        ),
        act(admin_client, "channel", "release", poisoned["channel"], confirmed="yes", follow=True).content.decode(),
        page("channel"),
        admin_client.get(address("channel", poisoned["channel"]).replace("/change/", "/history/")).content.decode(),
    ]
    shown = 0
    for text in pages:
        assert Page(text).canaries() == []
        assert Page(text).inline_code() == []
        shown += "&lt;canary&gt;" in text
    assert shown >= 23


def test_errors_are_a_list_with_the_newest_first(page: Pages) -> None:
    pk = enqueue("h").id
    for n in (1, 2):
        [delivery] = dequeue(worker=f"host-{n}")
        retry(
            delivery,
            errors=[{"type": "ValueError", "message": f"try {n}", "traceback": "frames"}],
            delays=[timedelta(0)],
        )
        sweep()
    text = page("message", pk)
    assert text.index("Attempt 2") < text.index("Attempt 1")
    assert "ValueError: try 2" in text
    assert "host-1" in text
    assert text.count("<summary>Traceback</summary>") == 2


@cases("errors", [{"just": "an object"}, ["text", 5], "text", 7, [[]], [{"at": "yesterday"}], [{}], []])
def test_errors_of_any_shape_are_shown(page: Pages, errors: object) -> None:
    pk = enqueue("h").id
    Message.objects.filter(pk=pk).update(errors=errors)
    assert page("message", pk)


@cases("payload", [None, 0, "text", [], {"a": None}, {"ключ": "значение 🚀"}, {"html": "<b>&amp;</b>"}])
def test_any_payload_is_shown(page: Pages, payload: object) -> None:
    assert page("message", enqueue("h", payload).id)


def test_a_payload_is_shown_pretty_and_readable(page: Pages) -> None:
    text = page("message", enqueue("h", {"b": {"c": "Grüße"}}).id)
    assert "{\n  &quot;b&quot;: {\n    &quot;c&quot;: &quot;Grüße&quot;\n  }\n}" in text


def test_of_a_very_long_payload_the_start_is_shown(page: Pages) -> None:
    text = page("message", enqueue("h", {"long": "x" * 3_000_000}).id)
    assert len(text) < 300_000
    assert "the rest of 3,000,0" in text


def test_a_body_is_shown_by_its_size_and_start(page: Pages) -> None:
    assert "plain text, Grüße" in page("message", enqueue("h", body="plain text, Grüße".encode()).id)
    text = page("message", enqueue("h", body=b"\xff\x00<canary>" + bytes(1_000_000)).id)
    assert "00000000  ff 00 3c 63 61 6e 61 72 79 3e" in text
    assert "976.6\N{NO-BREAK SPACE}KB (1000010 bytes)" in text
    assert len(text) < 50_000
    assert "None" not in page("message", enqueue("h").id)


def test_readable_text_may_be_cut_within_a_character() -> None:
    assert rendering.readable("Grüße".encode()[:3]) == "Gr"
    assert rendering.readable(b"a\x1b[31m").startswith("00000000  61 1b 5b")
    assert rendering.readable(b"") == ""


@cases(
    ("value", "text"),
    [
        (timedelta(0), "0 ms"),
        (timedelta(milliseconds=250), "250 ms"),
        (timedelta(seconds=61), "1 min 1 s"),
        (timedelta(hours=2), "2 h"),
        (timedelta(days=3, hours=4, minutes=5), "3 d 4 h"),
        (timedelta(seconds=-90), "-1 min 30 s"),
    ],
)
def test_durations_are_short(value: timedelta, text: str) -> None:
    assert rendering.duration(value).replace("\N{NO-BREAK SPACE}", " ") == text


def test_times_within_errors_are_shown_in_the_readers_zone() -> None:
    at = datetime(2026, 1, 2, 3, 4, tzinfo=UTC).isoformat()
    with timezone.override("Europe/Berlin"):
        assert "4:04" in rendering.moment_text(at)
    assert rendering.moment_text("not a time") == "not a time"
    assert rendering.moment_text("2026-13-45T00:00:00Z") == "2026-13-45T00:00:00Z"


@pytest.mark.parametrize(
    ("apart", "text"),
    [(timedelta(0), "12:30:05"), (timedelta(days=40), "20 May, 12:30"), (timedelta(days=400), "2025")],
)
def test_a_list_has_as_much_of_a_time_as_is_needed(
    monkeypatch: pytest.MonkeyPatch, apart: timedelta, text: str
) -> None:
    now = datetime(2026, 6, 29, 12, 30, 5, tzinfo=UTC)
    monkeypatch.setattr(timezone, "now", lambda: now)
    with timezone.override("UTC"):
        assert text in strip_tags(rendering.short(now - apart))


site = AdminSite(name="operations")
site.register(Channel, ChannelAdmin)
site.register(Message, MessageAdmin)
site.register(ArchivedMessage, ArchivedMessageAdmin)
site.register(DeadLetter, DeadLetterAdmin)
site.register(Worker, WorkerAdmin)
small = AdminSite(name="small")
small.register(Message, MessageAdmin)
urlpatterns = [
    path("operations/", site.urls),
    path("small/", small.urls),
    path("other/", include("testproject.urls")),
]


@pytest.mark.urls("tests.admin.test_content")
def test_links_stay_on_an_admin_site_of_ones_own(admin_client: Client) -> None:
    pk = enqueue("h").id
    channels = admin_client.get("/operations/pgqueue/channel/").content.decode()
    assert f'href="/operations/pgqueue/message/?channel={Channel.objects.get().pk}' in channels
    message = admin_client.get(f"/operations/pgqueue/message/{pk}/change/").content.decode()
    assert 'href="/operations/pgqueue/channel/' in message
    posted = {"action": "pause", "_selected_action": Channel.objects.get().pk, "index": "0"}
    confirmation = admin_client.post("/operations/pgqueue/channel/", posted).content.decode()
    assert 'action="/operations/pgqueue/channel/"' in confirmation
    for text in (channels, message, confirmation):
        assert "/other/" not in text


@pytest.mark.urls("tests.admin.test_content")
def test_an_admin_site_without_channels_shows_messages(admin_client: Client) -> None:
    pk = enqueue("h").id
    assert "default/default" in admin_client.get("/small/pgqueue/message/").content.decode()
    assert "default/default" in admin_client.get(f"/small/pgqueue/message/{pk}/change/").content.decode()


def test_a_payload_that_was_not_archived_is_shown_unlike_one_that_is_null(page: Pages) -> None:
    for archive in ("full", "outcome"):
        channel_set(channel=archive, archive=archive)
        enqueue("h", None, channel=archive)
    complete(dequeue(limit=2))
    shown = {message.channel: page("archivedmessage", message.id) for message in ArchivedMessage.objects.all()}
    assert "keeps only outcomes in the archive" in shown["outcome"]
    assert "keeps only outcomes in the archive" not in shown["full"]
