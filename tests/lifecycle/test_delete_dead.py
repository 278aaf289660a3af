from __future__ import annotations

import pytest

from django_pgqueue import channel_set, dead_letter, delete_dead, dequeue, enqueue, redrive
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
    assert delete_dead([first, second]) == {first: "deleted", second: "deleted"}
    assert DeadLetter.objects.get().pk == kept
    assert places(first) == []
    assert redrive([first]) == {}


def test_redriven_dead_letters_are_not_deleted():
    [letter] = died()
    redrive([letter])
    live = enqueue("h").id
    assert delete_dead([letter, live, 10**15]) == {letter: "redriven", live: "not_found", 10**15: "not_found"}
    assert Message.objects.count() == 2
    assert delete_dead([]) == {}


def test_the_totals_of_a_channel_stay_true():
    channel_set(channel="red")
    total = "SELECT total FROM pgqueue_metrics() WHERE channel = 'red'"
    letters = died(2, "red") + died(1)
    assert value(total) == 2
    delete_dead(letters[:1])
    delete_dead(letters[1:])
    assert value(total) == 2
    assert value("SELECT dead FROM pgqueue_metrics() WHERE channel = 'red'") == 0


def test_dead_letters_that_a_lake_lacks_stay_when_they_are_to_be_exported(settings):
    settings.DJANGO_PGQUEUE = {"KEEP_UNTIL_EXPORTED": True, "LAKE": "/srv/lake"}
    [letter] = died()
    assert delete_dead(letter) == {letter: "unexported"}
    xid = value("SELECT xid::text::bigint FROM pgqueue_dead_letter WHERE id = %s", letter)
    lake = "SELECT pgqueue_lake_exported(%s, %s, %s, '{}')"
    sql(lake, "one", "/srv/one", xid + 1)
    sql(lake, "two", "/srv/two", xid)
    assert delete_dead(letter) == {letter: "unexported"}
    sql(lake, "two", "/srv/two", xid + 1)
    assert delete_dead(letter) == {letter: "deleted"}


@pytest.mark.django_db(transaction=True)
def test_a_session_that_redrives_one_is_not_waited_for(connect):
    first, second = died(2)
    other = connect()
    other.execute("SELECT * FROM pgqueue_redrive(ARRAY[%s::bigint])", (first,))
    assert delete_dead([first, second]) == {first: "busy", second: "deleted"}
    other.commit()
    assert delete_dead(first) == {first: "redriven"}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("call", ["pgqueue_delete_dead(ARRAY[%s::bigint])", "pgqueue_prune('1 day', '0')"])
def test_a_session_that_deletes_or_prunes_is_not_waited_for(connect, call):
    """Both add to the tally: in a circle, they would wait for each other."""
    first, second = died(2)
    other = connect()
    other.execute(f"SELECT * FROM {call}", (first,) if "%s" in call else None)
    assert delete_dead(second) == {second: "busy"}
    other.rollback()
    assert delete_dead(second) == {second: "deleted"}
