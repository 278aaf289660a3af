from __future__ import annotations

from datetime import timedelta
from types import MappingProxyType

import pytest
from django.db import IntegrityError

from django_pgqueue import channel_set, dequeue, enqueue
from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.models import Channel
from tests.support.cases import cases
from tests.support.refusals import refused

pytestmark = pytest.mark.django_db


def test_it_creates_a_channel_without_limits():
    created = channel_set(channel="new")
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
    assert limits(channel_set(channel="new", **LIMITS)) == LIMITS


def test_settings_that_are_not_named_stay_and_none_lifts_a_limit():
    channel = channel_set(channel="new", **LIMITS)
    assert channel_set(channel="new", weight=2) == channel
    assert limits(channel) == {**LIMITS, "weight": 2}
    channel_set(channel="new", max_size=None, max_concurrency=None, release_interval=None)
    assert limits(channel) == {
        **LIMITS,
        "weight": 2,
        "max_size": None,
        "max_concurrency": None,
        "release_interval": None,
    }
    assert channel_set(channel="new") == channel


def test_the_same_name_in_another_queue_is_another_channel():
    assert channel_set(channel="new") != channel_set(channel="new", queue="emails")
    assert Channel.objects.filter(name="new").count() == 2


@cases(
    ("given", "problem"),
    [
        ({"max_concurrency": 0}, "pause the channel"),
        ({"max_concurrency": -1}, "max_concurrency"),
        ({"max_concurrency": 2**40}, None),
        ({"max_concurrency": 1.5}, None),
        ({"max_concurrency": "many"}, None),
        ({"max_size": 0}, "release the channel"),
        ({"max_size": -5}, "max_size"),
        ({"full_policy": "explode"}, "drop_oldest or replace"),
        ({"release_interval": timedelta(0)}, "release_interval"),
        ({"release_interval": timedelta(seconds=-1)}, "release_interval"),
        ({"release_interval": "nonsense"}, None),
        ({"release_burst": 0}, "release_burst"),
        ({"release_burst": -1}, "release_burst"),
        ({"weight": 0}, "weight"),
        ({"weight": 1001}, "weight"),
        ({"channel": ""}, "1 to 200"),
        ({"channel": "x" * 201}, "1 to 200"),
        ({"channel": "x" * 300}, "1 to 200"),
        ({"channel": "a\0b"}, "NUL"),
        ({"channel": "\ud800"}, None),
        ({"channel": None}, "channel is not a str"),
        ({"queue": ""}, "queue"),
        ({"queue": "x" * 101}, "1 to 100"),
    ],
)
def test_invalid_settings_of_a_channel_are_refused(given: dict[str, object], problem: str | None):
    with refused(InvalidMessage, problem) as raised:
        channel_set(**{"channel": "new", **given})
    assert "payload" not in str(raised.value)
    assert list(Channel.objects.values_list("name", flat=True)) == ["default"]


@cases(
    "given",
    [
        {"max_concurrency": 0}, {"max_size": 0}, {"release_interval": timedelta(0)}, {"release_burst": 0},
        {"weight": 0}, {"weight": 1001}, {"name": ""}, {"queue": ""},
    ],
)  # fmt: skip
def test_the_table_itself_refuses_limits_that_make_no_sense(given: dict[str, object]):
    with refused(IntegrityError):
        Channel.objects.create(**{"name": "new", **given})


@cases(
    ("rate", "interval", "burst"),
    [
        ("10/m", timedelta(seconds=6), 1),
        ("5/s burst 20", timedelta(milliseconds=200), 20),
        ("1/30s", timedelta(seconds=30), 1),
        (" 24 / d  burst 3 ", timedelta(hours=1), 3),
        ("1000000/s", timedelta(microseconds=1), 1),
    ],
)
def test_a_rate_sets_the_interval_and_the_burst(rate: str, interval: timedelta, burst: int):
    channel = channel_set(channel="new", release_burst=7, weight=3)
    channel_set(channel="new", rate=rate)
    assert limits(channel)["release_interval"] == interval
    assert limits(channel)["release_burst"] == burst
    assert limits(channel)["weight"] == 3


@cases(
    ("rate", "says"),
    [
        ("10", 'no rate.*"10/m"'),
        ("10/w", "no rate.*s, m, h and d"),
        ("1.5/s", "no rate"),
        ("", "no rate"),
        ("5/s burst", "no rate"),
        (10, "rate is 10, which is no rate"),
        ("0/s", "at least 1.*Pause the channel"),
        ("1/0s", "at least 1"),
        ("5/s burst 0", "at least 1"),
        ("2000001/s", "more than 1,000,000 in a second"),
    ],
)
def test_a_rate_that_is_none_is_refused_and_the_error_shows_one(rate: str, says: str):
    with pytest.raises(InvalidMessage, match=says):
        channel_set(channel="new", rate=rate)
    assert not Channel.objects.filter(name="new").exists()


def test_a_rate_beside_an_interval_is_refused():
    with pytest.raises(InvalidMessage, match="rate stands for release_interval and release_burst"):
        channel_set(channel="new", rate="5/s", release_burst=3)


def test_it_sets_the_context_together_with_the_limits():
    channel_set(channel="acme", max_concurrency=2, context={"tenant": "acme"})
    enqueue("h", channel="acme")
    channel_set(channel="acme", weight=3)
    [delivery] = dequeue()
    assert delivery.channel_context == {"tenant": "acme"}
    channel_set(channel="acme", context=MappingProxyType({"schema": "a"}))
    channel = Channel.objects.get(name="acme")
    assert (channel.context, channel.max_concurrency, channel.weight) == ({"schema": "a"}, 2, 3)
    channel_set(channel="acme", context={})
    assert Channel.objects.get(name="acme").context == {}


@cases("context", [None, "acme", ["tenant"], {"tenant": object()}, {"tenant": "\0"}])
def test_a_context_that_is_none_is_refused(context: object):
    with pytest.raises(InvalidMessage, match="context"):
        channel_set(channel="acme", context=context)
    assert not Channel.objects.filter(name="acme").exists()
