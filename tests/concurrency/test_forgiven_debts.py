"""No message may cost so much that it closes a rate for all for longer than an hour, and a debt can be forgiven."""

from __future__ import annotations

import json

import psycopg
import pytest

from tests.concurrency.rates import HOUR, UNBOUND, Rated, spend, taken
from tests.support.sessions import Connect, Session, column, one, until_it_waits
from tests.support.verbs import dequeue, enqueue, make_channel, tick
from tests.support.waiting import eventually

MOST = 2**31 - 1
COST = "SELECT outcome, refusal ->> 'message' FROM pgqueue_enqueue('h', p_channel => 'a', p_cost => %s)"


def set_limit(session: Session, **settings: object) -> None:
    session.execute("SELECT pgqueue_limit_set('shared', %s)", [json.dumps(settings)])


def test_a_cost_above_an_hour_of_the_rate_is_refused(session: Session, rated: Rated) -> None:
    rated("1 millisecond", 1)
    outcome, message = session.execute(COST, [MOST]).fetchone()

    assert outcome == "invalid"
    assert f"cost is {MOST}, and the rate of" in message
    assert "allows 3600000: its burst, or what it gives in 01:00:00 (the setting pgqueue.max_debt)" in message
    assert one(session, COST, 3_600_000) == "created"


def test_a_cost_up_to_the_burst_is_taken_however_slow_the_rate_is(session: Session, rated: Rated) -> None:
    rated("1 day", 20)
    assert one(session, COST, 20) == "created"
    assert one(session, COST, 21) == "invalid"


def test_the_setting_moves_the_bound(session: Session, rated: Rated) -> None:
    rated("1 second", 1)
    session.execute("SET pgqueue.max_debt = '1 day'")
    assert one(session, COST, 86_400) == "created"
    assert one(session, COST, 86_401) == "invalid"


def test_a_shared_limit_bounds_the_cost_of_its_messages_by_name_and_by_handler(session: Session) -> None:
    make_channel(session, "a")
    set_limit(session, release_interval="1 second", release_burst=1, handlers=["metered"])
    ask = "SELECT outcome FROM pgqueue_enqueue(%s, p_channel => 'a', p_cost => 3601, p_limits => %s)"
    assert one(session, ask, "h", ["shared"]) == "invalid"
    assert one(session, ask, "metered", None) == "invalid"
    assert one(session, ask, "h", None) == "created"


@pytest.mark.parametrize("partial", [False, True])
def test_a_bulk_enqueue_names_the_message_that_costs_too_much(session: Session, rated: Rated, partial: bool) -> None:
    rated("1 second", 1)
    rows = session.execute(
        "SELECT outcome FROM pgqueue_enqueue_many('{h,h}', NULL, '{a,a}', p_costs => '{3600,3601}', p_partial => %s)",
        [partial],
    ).fetchall()
    assert [row[0] for row in rows] == ["created" if partial else "withheld", "invalid"]


def test_a_plain_insert_of_such_a_cost_raises(session: Session, rated: Rated) -> None:
    rated("1 second", 1)
    insert = (
        "INSERT INTO pgqueue_message (channel_id, handler, cost) "
        "SELECT c.id, 'h', u FROM pgqueue_channel AS c, unnest(%s::integer[]) AS u WHERE c.name = 'a'"
    )
    for costs in ([3601], [1, 3601]):
        with pytest.raises(psycopg.Error, match="cost is 3601") as raised:
            session.execute(insert, [costs])
        assert raised.value.sqlstate == "PGQ07"
    session.execute(insert, [[1, 3600]])


def test_a_handler_cannot_spend_more_either_but_it_can_spend_less(session: Session, rated: Rated) -> None:
    rated("1 second", 1)
    enqueue(session, "a", cost=3600)
    [lease] = dequeue(session)
    with pytest.raises(psycopg.Error, match="cost is 1000000") as raised:
        spend(session, lease, 1_000_000)
    assert raised.value.sqlstate == "PGQ07"
    assert spend(session, lease, 3) == 3600


def test_a_dead_letter_that_costs_more_than_its_rate_allows_now_is_refused(session: Session, rated: Rated) -> None:
    make_channel(session, "a")
    enqueue(session, "a", cost=5000)
    [lease] = dequeue(session)
    session.execute("SELECT pgqueue_dead_letter(ARRAY[%s], ARRAY[%s], ARRAY['no'])", [lease.id, lease.token])
    rated("1 second", 1)
    row = session.execute(
        "SELECT outcome, refusal ->> 'message' FROM pgqueue_redrive(ARRAY[%s])", [lease.id]
    ).fetchone()
    assert row is not None
    assert row[0] == "invalid"
    assert "cost is 5000" in row[1]


def forgive(session: Session, rated_by: str) -> None:
    if rated_by == "channel":
        session.execute("""SELECT pgqueue_channel_set('default', 'a', '{"forgive": true}')""")
    else:
        session.execute("""SELECT pgqueue_queue_set('default', '{"forgive": true}')""")


def test_a_forgiven_debt_holds_up_nothing_and_fills_no_bucket(
    session: Session, rated: Rated, request: pytest.FixtureRequest
) -> None:
    rated("2 seconds", 3)
    session.execute(UNBOUND)
    first = enqueue(session, "a", cost=500_000)
    others = [enqueue(session, "a") for _ in range(5)]
    [lease] = dequeue(session)
    assert lease.id == first
    spend(session, lease, 900_000)
    assert taken(session) == []

    forgive(session, request.node.callspec.params["rated"])

    found: list[int] = taken(session)
    assert len(found) < 2, "the debt is gone, but no burst is there"
    due = one(session, "SELECT extract(epoch FROM pgqueue_next_due('{default}'))")
    assert found or due <= 2
    assert (found or eventually(lambda: taken(session), seconds=60))[0] == others[0]


def test_two_that_forgive_at_the_same_moment_end_the_debt_once(
    session: Session, rated: Rated, request: pytest.FixtureRequest, connect: Connect
) -> None:
    rated(HOUR, 3)
    session.execute(UNBOUND)
    enqueue(session, "a", cost=500)
    others = [enqueue(session, "a") for _ in range(5)]
    dequeue(session)
    by = request.node.callspec.params["rated"]
    first, second = connect(), connect(autocommit=True)
    forgive(first, by)
    until_it_waits(session, second, lambda: forgive(second, by), first.commit)
    assert taken(session) == [], f"no token is there for {others}"


def test_a_bucket_without_a_debt_gets_nothing(session: Session, rated: Rated, request: pytest.FixtureRequest) -> None:
    rated(HOUR, 2)
    ids = [enqueue(session, "a") for _ in range(4)]
    assert taken(session) == ids[:2]
    for _ in range(3):
        forgive(session, request.node.callspec.params["rated"])
    assert taken(session) == []


def test_the_debt_of_a_shared_limit_is_forgiven(session: Session) -> None:
    make_channel(session, "a")
    set_limit(session, release_interval="2 seconds", release_burst=3)
    session.execute(UNBOUND)
    costly, *others = [enqueue(session, "a", limits=["shared"], cost=cost) for cost in (500_000, 1, 1, 1)]
    [lease] = dequeue(session)
    assert lease.id == costly
    spend(session, lease, 900_000)
    assert taken(session) == []

    set_limit(session, forgive=True)

    found: list[int] = taken(session)
    assert len(found) < 2, "the debt is gone, but no burst is there"
    assert (found or eventually(lambda: (tick(session), taken(session))[1], seconds=60))[0] == others[0]
    assert column(session, "SELECT ceil(tokens) FROM pgqueue_meter")[0] >= 0
