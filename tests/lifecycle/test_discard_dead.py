from __future__ import annotations

import pytest

from django_pgqueue import channel_set, dead_letter, dequeue, discard_dead, enqueue, redrive
from django_pgqueue.models import DeadLetter, Message
from tests.support.messages import places
from tests.support.sql import sql, value

pytestmark = pytest.mark.django_db


def died(count: int = 1, channel: str = "default") -> list[int]:
    for _ in range(count):
        enqueue("h", channel=channel)
    dead_letter(taken := dequeue(limit=count), reason="refused")
    return [delivery.id for delivery in taken]


def test_they_are_gone_and_cannot_be_redriven():
    first, second, kept = died(3)
    assert discard_dead([first, second]) == {first: "discarded", second: "discarded"}
    assert DeadLetter.objects.get().pk == kept
    assert places(first) == []
    assert redrive([first]) == {}


def test_what_was_redriven_stays():
    [letter] = died()
    redrive([letter])
    live = enqueue("h").id
    assert discard_dead([letter, live, 10**15]) == {letter: "redriven", live: "not_found", 10**15: "not_found"}
    assert Message.objects.count() == 2
    assert discard_dead([]) == {}


def test_the_totals_of_a_channel_stay_true():
    channel_set(channel="red")
    total = "SELECT total FROM pgqueue_metrics() WHERE channel = 'red'"
    letters = died(2, "red") + died(1)
    assert value(total) == 2
    discard_dead(letters[:1])
    discard_dead(letters[1:])
    assert value(total) == 2
    assert value("SELECT dead FROM pgqueue_metrics() WHERE channel = 'red'") == 0


def test_what_a_lake_lacks_stays_when_it_is_to_be_exported(settings):
    settings.DJANGO_PGQUEUE = {"KEEP_UNTIL_EXPORTED": True, "LAKE": "/srv/lake"}
    [letter] = died()
    assert discard_dead(letter) == {letter: "unexported"}
    xid = value("SELECT xid::text::bigint FROM pgqueue_dead_letter WHERE id = %s", letter)
    lake = "SELECT pgqueue_lake_exported(%s, %s, %s, '{}')"
    sql(lake, "one", "/srv/one", xid + 1)
    sql(lake, "two", "/srv/two", xid)
    assert discard_dead(letter) == {letter: "unexported"}
    sql(lake, "two", "/srv/two", xid + 1)
    assert discard_dead(letter) == {letter: "discarded"}


@pytest.mark.django_db(transaction=True)
def test_a_session_that_redrives_one_is_not_waited_for(connect):
    first, second = died(2)
    other = connect()
    other.execute("SELECT * FROM pgqueue_redrive(ARRAY[%s::bigint])", (first,))
    assert discard_dead([first, second]) == {first: "busy", second: "discarded"}
    other.commit()
    assert discard_dead(first) == {first: "redriven"}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("call", ["pgqueue_discard_dead(ARRAY[%s::bigint])", "pgqueue_prune('1 day', '0')"])
def test_a_session_that_discards_or_prunes_is_not_waited_for(connect, call):
    """Both add to the tally: in a circle, they would wait for each other."""
    first, second = died(2)
    other = connect()
    other.execute(f"SELECT * FROM {call}", (first,) if "%s" in call else None)
    assert discard_dead(second) == {second: "busy"}
    other.rollback()
    assert discard_dead(second) == {second: "discarded"}
