from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import IntegrityError

from django_pgqueue import channel_release, channel_set, dequeue, enqueue
from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.models import Channel
from tests.lifecycle.conftest import refused, sql

pytestmark = pytest.mark.django_db


def test_it_creates_a_channel_without_limits():
    created = channel_set("new")
    channel = Channel.objects.get(pk=created)
    assert (channel.queue, channel.name, channel.weight, channel.full_policy) == ("default", "new", 1, "error")
    assert (channel.max_concurrency, channel.max_size, channel.release_interval, channel.release_burst) == (
        None,
        None,
        None,
        1,
    )
    assert (channel.paused_at, channel.released_at) == (None, None)
    assert channel.created_at


LIMITS = {
    "max_concurrency": 3,
    "max_size": 100,
    "full_policy": "drop",
    "release_interval": timedelta(seconds=1, microseconds=500),
    "release_burst": 4,
    "weight": 1000,
}


def limits(channel: int) -> dict[str, object]:
    return Channel.objects.filter(pk=channel).values(*LIMITS).get()


def test_it_sets_every_limit():
    assert limits(channel_set("new", **LIMITS)) == LIMITS


def test_what_is_not_named_stays_and_none_lifts_a_limit():
    channel = channel_set("new", **LIMITS)
    assert channel_set("new", weight=2) == channel
    assert limits(channel) == {**LIMITS, "weight": 2}
    channel_set("new", max_size=None, max_concurrency=None, release_interval=None)
    assert limits(channel) == {
        **LIMITS,
        "weight": 2,
        "max_size": None,
        "max_concurrency": None,
        "release_interval": None,
    }
    assert channel_set("new") == channel


def test_the_same_name_in_another_queue_is_another_channel():
    assert channel_set("new") != channel_set("new", "emails")
    assert Channel.objects.filter(name="new").count() == 2


def test_it_opens_a_released_channel_again():
    channel_release("default")
    channel_set("default")
    assert enqueue("h").created
    assert Channel.objects.get().released_at is None


@pytest.mark.parametrize("release_interval", [timedelta(microseconds=1), timedelta(days=400)])
def test_intervals_of_every_length_are_taken_exactly(release_interval: timedelta):
    assert limits(channel_set("new", release_interval=release_interval))["release_interval"] == release_interval


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"max_concurrency": 0}, "pause the channel"),
        ({"max_concurrency": -1}, "max_concurrency"),
        ({"max_concurrency": 2**40}, None),
        ({"max_concurrency": 1.5}, None),
        ({"max_concurrency": "many"}, None),
        ({"max_size": 0}, "release the channel"),
        ({"max_size": -5}, "max_size"),
        ({"full_policy": "explode"}, "error nor drop"),
        ({"release_interval": timedelta(0)}, "release_interval"),
        ({"release_interval": timedelta(seconds=-1)}, "release_interval"),
        ({"release_interval": "nonsense"}, None),
        ({"release_burst": 0}, "release_burst"),
        ({"release_burst": -1}, "release_burst"),
        ({"weight": 0}, "weight"),
        ({"weight": 1001}, "weight"),
        ({"max_cuncurrency": 1}, "unknown limits"),
        ({"name": ""}, "1 to 200"),
        ({"name": "x" * 201}, "1 to 200"),
        ({"name": "x" * 300}, "1 to 200"),
        ({"name": "a\0b"}, "NUL"),
        ({"name": "\ud800"}, None),
        ({"name": None}, "1 to 200"),
        ({"queue": ""}, "queue"),
        ({"queue": "x" * 101}, "1 to 100"),
    ],
    ids=lambda given: str(given)[:40],
)
def test_what_no_channel_may_be_is_refused(given: dict[str, object], problem: str | None):
    with refused(InvalidMessage, problem) as raised:
        channel_set(**{"name": "new", **given})
    assert "payload" not in str(raised.value)
    assert list(Channel.objects.values_list("name", flat=True)) == ["default"]


def test_a_bad_limit_leaves_the_others_as_they_are():
    channel = channel_set("new", **LIMITS)
    with refused(InvalidMessage):
        channel_set("new", weight=5, max_size=-1)
    assert limits(channel) == LIMITS


@pytest.mark.parametrize("number", [Decimal(7), True])
def test_numbers_of_other_kinds_are_taken_or_refused_clearly(number: object):
    try:
        channel = channel_set("new", max_concurrency=number)
    except InvalidMessage:
        return
    assert limits(channel)["max_concurrency"] == int(number)


@pytest.mark.parametrize(
    "given",
    [
        {"max_concurrency": 0}, {"max_size": 0}, {"release_interval": timedelta(0)}, {"release_burst": 0},
        {"weight": 0}, {"weight": 1001}, {"name": ""}, {"queue": ""},
    ],
    ids=str,
)  # fmt: skip
def test_the_table_itself_refuses_limits_that_make_no_sense(given: dict[str, object]):
    with refused(IntegrityError):
        Channel.objects.create(**{"name": "new", **given})


@pytest.mark.parametrize(
    "name", ["it's", 'a"b', "'; DROP TABLE pgqueue_channel; --", "🦆", "%s", "{}", "\\", "x" * 200]
)
def test_a_name_is_just_a_name(name: str):
    channel = channel_set(name, queue=name[:100])
    assert Channel.objects.get(pk=channel).name == name
    assert channel_set(name, queue=name[:100]) == channel
    enqueue("h", channel=name, queue=name[:100])
    assert [delivery.channel for delivery in dequeue(name[:100])] == [name]


@pytest.mark.django_db(transaction=True)
def test_two_sessions_that_create_the_same_channel_get_the_same_one(connect):
    one, two = connect(), connect(autocommit=True)
    [(created,)] = one.execute("SELECT pgqueue_channel_set('new')").fetchall()
    one.commit()
    assert two.execute("SELECT pgqueue_channel_set('new')").fetchall() == [(created,)]


def test_it_is_a_function_of_the_database_too():
    [(channel,)] = sql(
        'SELECT pgqueue_channel_set(\'new\', p_limits => \'{"max_size": 5, "release_interval": "1 minute"}\')'
    )
    assert limits(channel)["max_size"] == 5
    assert limits(channel)["release_interval"] == timedelta(minutes=1)
