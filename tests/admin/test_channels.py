from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from django_pgqueue import channel_pause, channel_set, dequeue, enqueue
from django_pgqueue.models import ArchivedMessage, Channel, Message
from tests.admin.conftest import act, address, logged, notices
from tests.support.cases import cases

LIMITS = {
    "max_concurrency": "",
    "max_size": "",
    "full_policy": "error",
    "on_dead": "continue",
    "release_interval": "",
    "release_burst": "1",
    "weight": "1",
    "context": "{}",
}


@pytest.fixture
def channel() -> Channel:
    return Channel.objects.get(pk=channel_set(channel="tenant"))


def save(client: Client, channel: Channel | None, **values: str) -> list[str]:
    """Send the form; returns what it complains about."""
    path = address("channel", channel.pk) if channel else f"{address('channel')}add/"
    response = client.post(path, {**LIMITS, **values})
    if response.status_code == 302:
        return []
    form = response.context["adminform"].form
    return [f"{name}: {text}" for name, texts in form.errors.items() for text in texts]


def test_limits_are_edited_and_hold_at_once(admin_client: Client, channel: Channel) -> None:
    for n in range(3):
        enqueue("mail.send", {"n": n}, channel="tenant")
    assert save(admin_client, channel, max_concurrency="2", weight="5", release_interval="") == []
    assert len(dequeue(limit=10)) == 2
    assert logged() == [("default/tenant", "max_concurrency: none → 2; weight: 1 → 5", "admin")]


def test_a_rate_is_typed_as_a_rate(admin_client: Client, channel: Channel) -> None:
    assert save(admin_client, channel, release_interval=" 10/m ") == []
    channel.refresh_from_db()
    assert (channel.release_interval, channel.release_burst) == (timedelta(seconds=6), 1)
    assert save(admin_client, channel, release_interval="5/15m") == []
    channel.refresh_from_db()
    assert channel.release_interval == timedelta(minutes=3)


@cases(
    ("field", "value"),
    [
        ("max_concurrency", "0"),
        ("max_concurrency", "-1"),
        ("max_concurrency", "99999999999"),
        ("max_size", "0"),
        ("release_interval", "0"),
        ("release_interval", "-5"),
        ("release_interval", "soon"),
        ("release_interval", "0/m"),
        ("release_interval", "10/x"),
        ("release_interval", "10/m burst 5"),
        ("release_burst", "0"),
        ("weight", "0"),
        ("weight", "1001"),
        ("full_policy", "explode"),
        ("archive", "some"),
    ],
)
def test_a_limit_that_no_channel_may_have_is_refused(
    admin_client: Client, channel: Channel, field: str, value: str
) -> None:
    [complaint] = save(admin_client, channel, **{field: value})
    assert complaint.startswith(f"{field}: ")
    assert "Constraint" not in complaint
    assert getattr(Channel.objects.get(pk=channel.pk), field) == getattr(channel, field)


def test_a_channel_is_added(admin_client: Client) -> None:
    assert save(admin_client, None, queue="mail", name="ACME 🚀", release_interval="0:00:10", release_burst="3") == []
    added = Channel.objects.get(queue="mail", name="ACME 🚀")
    assert (added.release_interval, added.release_burst) == (timedelta(seconds=10), 3)
    assert enqueue("mail.send", queue="mail", channel="ACME 🚀").created


@pytest.mark.parametrize(("given", "kept"), [('{"tenant": "acme"}', {"tenant": "acme"}), ("", {}), ("{}", {})])
def test_the_context_is_edited_and_comes_with_the_next_delivery(
    admin_client: Client, channel: Channel, given: str, kept: dict[str, str]
) -> None:
    enqueue("mail.send", channel="tenant")
    assert save(admin_client, channel, context=given) == []
    [delivery] = dequeue()
    assert delivery.channel_context == kept


@cases("given", ["[1]", '"acme"', "{", '{"a": NaN}', '{"a": "\\u0000"}', "7"])
def test_a_context_that_no_message_could_bring_is_refused(admin_client: Client, channel: Channel, given: str) -> None:
    [complaint] = save(admin_client, channel, context=given)
    assert complaint.startswith("context: ")
    assert Channel.objects.get(pk=channel.pk).context == {}


@cases("name", ["", "x" * 201, "nul\0", "tenant"])
def test_a_name_that_no_channel_may_have_is_refused(admin_client: Client, channel: Channel, name: str) -> None:
    assert save(admin_client, None, queue="default", name=name)


def test_name_and_queue_of_a_channel_stay(admin_client: Client, channel: Channel) -> None:
    assert save(admin_client, channel, name="other", queue="other", weight="2") == []
    channel.refresh_from_db()
    assert (channel.queue, channel.name, channel.weight) == ("default", "tenant", 2)


def test_saving_limits_does_not_end_a_pause_of_another_user(admin_client: Client, channel: Channel) -> None:
    channel_pause(channel="tenant", reason="incident")
    with CaptureQueriesContext(connection) as captured:
        assert save(admin_client, channel, weight="2", paused_at="", pause_reason="") == []
    [update] = [entry["sql"] for entry in captured if entry["sql"].startswith('UPDATE "pgqueue_channel"')]
    assert update.startswith('UPDATE "pgqueue_channel" SET "weight" = 2 WHERE')
    channel.refresh_from_db()
    assert channel.paused_at is not None
    assert channel.pause_reason == "incident"


def test_pause_asks_for_a_reason_first(admin_client: Client, channel: Channel) -> None:
    response = act(admin_client, "channel", "pause", channel.pk)
    assert response.status_code == 200
    assert 'name="reason"' in response.content.decode()
    assert "default/tenant" in response.content.decode()
    response = act(admin_client, "channel", "pause", channel.pk, confirmed="yes", reason="  ")
    assert "This field is required" in response.content.decode()
    assert Channel.objects.get(pk=channel.pk).paused_at is None
    assert logged() == []


def test_pause_and_resume(admin_client: Client, channel: Channel) -> None:
    enqueue("mail.send", channel="tenant")
    response = act(admin_client, "channel", "pause", channel.pk, confirmed="yes", reason="100% down")
    assert notices(response) == "1 channel is paused."
    assert dequeue() == []
    assert Channel.objects.get(pk=channel.pk).pause_reason == "100% down"
    assert "100% down" in admin_client.get(address("channel")).content.decode()
    response = act(admin_client, "channel", "resume", channel.pk)
    assert notices(response) == "1 channel is resumed."
    assert len(dequeue()) == 1
    assert logged() == [
        ("default/tenant", "Paused: 100% down", "admin"),
        ("default/tenant", "Resumed.", "admin"),
    ]


def test_resume_leaves_channels_alone_that_are_not_paused(admin_client: Client, channel: Channel) -> None:
    assert notices(act(admin_client, "channel", "resume", channel.pk)) == "0 channels are resumed."
    assert logged() == []


def test_purge_moves_what_waits_to_the_archive(admin_client: Client, channel: Channel) -> None:
    for n in range(4):
        enqueue("mail.send", {"n": n}, channel="tenant", delay=timedelta(hours=1) if n == 3 else None)
    [leased] = dequeue(limit=1)
    enqueue("mail.send", {"of": "another channel"})
    assert act(admin_client, "channel", "purge", channel.pk).status_code == 200
    assert Message.objects.count() == 5
    response = act(admin_client, "channel", "purge", channel.pk, confirmed="yes")
    assert notices(response) == "3 messages are purged."
    assert set(ArchivedMessage.objects.values_list("channel", "outcome")) == {("tenant", "purged")}
    assert list(Message.objects.filter(channel=channel).values_list("pk", flat=True)) == [leased.id]
    assert logged() == [("default/tenant", "Purged 3 messages.", "admin")]


def test_release_lets_a_channel_run_dry(admin_client: Client, channel: Channel) -> None:
    assert act(admin_client, "channel", "release", channel.pk).status_code == 200
    assert Channel.objects.get(pk=channel.pk).released_at is None
    response = act(admin_client, "channel", "release", channel.pk, confirmed="yes")
    assert notices(response) == "1 channel is released."
    assert Channel.objects.get(pk=channel.pk).released_at is not None
    assert logged() == [("default/tenant", "Released.", "admin")]
    assert notices(act(admin_client, "channel", "release", channel.pk, confirmed="yes")) == "0 channels are released."


def test_all_channels_of_a_filter_are_paused_together(admin_client: Client, channel: Channel) -> None:
    mail = [channel_set(channel=f"m{n}", queue="mail") for n in range(3)]
    path = f"{address('channel')}?queue=mail"
    first = admin_client.post(
        path, {"action": "pause", "select_across": "1", "_selected_action": mail[0], "index": "0"}
    )
    assert "3 channels" in first.content.decode()
    assert f'action="{path}"' in first.content.decode()
    posted = {"action": "pause", "select_across": "1", "_selected_action": mail[0], "confirmed": "yes", "reason": "r"}
    admin_client.post(path, posted)
    assert set(Channel.objects.exclude(paused_at=None).values_list("pk", flat=True)) == set(mail)


def test_a_purge_that_the_archive_refuses_is_reported_and_changes_nothing(
    admin_client: Client, channel: Channel
) -> None:
    enqueue("mail.send", channel="tenant")
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYYMMDD')")
        cursor.execute(f"DROP TABLE pgqueue_archived_message_{cursor.fetchone()[0]}")
    response = act(admin_client, "channel", "purge", channel.pk, confirmed="yes")
    assert "no partition for today" in notices(response)
    assert "sweepqueue" in notices(response)
    assert Message.objects.count() == 1
    assert logged() == []


def test_the_archive_setting_of_a_channel_is_chosen_and_shown(admin_client: Client, channel: Channel) -> None:
    assert save(admin_client, channel, archive="none") == []
    assert "archives: nothing" in admin_client.get(address("channel")).content.decode()
    assert save(admin_client, channel, archive="") == []
    channel.refresh_from_db()
    assert channel.archive is None
    changes = [change for _, change, _ in logged()]
    assert sorted(changes) == ["archive: none → the queue's setting", "archive: the queue's setting → none"]


def test_a_channel_that_becomes_ordered_gets_its_max_concurrency(admin_client: Client, channel: Channel) -> None:
    assert save(admin_client, channel, ordered="on", on_dead="pause") == []
    channel.refresh_from_db()
    assert (channel.ordered, channel.on_dead, channel.max_concurrency) == (True, "pause", 1)
    assert save(admin_client, channel, ordered="on", on_dead="pause", max_concurrency="2") == [
        "__all__: An ordered channel has a max_concurrency of 1."
    ]
    assert "1 at once, in order, pauses at a dead letter" in admin_client.get(address("channel")).text
