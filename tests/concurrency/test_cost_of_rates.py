"""The rates of channels and of whole queues count what messages cost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import psycopg
import pytest

from tests.support.chance import Chance, seeds
from tests.support.sessions import Connect, Session, column, one, together
from tests.support.verbs import Lease, dequeue, drain, enqueue, limit_set, make_channel, set_queue, settle, tick

Rated = Callable[..., None]
HOUR = "1 hour"


@pytest.fixture(params=["channel", "queue", "share"])
def rated(request: pytest.FixtureRequest, session: Session) -> Rated:
    """Give a rate to channel a, to the queue, or to the queue that serves by share."""

    def set_rate(interval: str, burst: int) -> None:
        rate = {"release_interval": interval, "release_burst": burst}
        make_channel(session, "a", **rate if request.param == "channel" else {})
        if request.param != "channel":
            set_queue(session, fairness="turns" if request.param == "queue" else "share", **rate)

    return set_rate


def spend(session: Session, lease: Lease, cost: int) -> int:
    return int(one(session, "SELECT pgqueue_spend(%s, %s, %s)", lease.id, lease.token, cost))


def taken(session: Session, limit: int = 1) -> list[int]:
    """Return the messages that five dequeues take."""
    return [lease.id for _ in range(5) for lease in dequeue(session, limit)]


@pytest.mark.parametrize("limit", [1, 10])
def test_a_rate_counts_the_cost_of_messages(session: Session, rated: Rated, limit: int) -> None:
    rated(HOUR, 100)
    ids = [enqueue(session, "a", cost=cost) for cost in (60, 30, 20, 1)]

    assert taken(session, limit) == ids[:2], "10 tokens are left, and the third one is not overtaken"


@pytest.mark.parametrize("limit", [1, 10])
def test_messages_without_a_cost_take_one_token(session: Session, rated: Rated, limit: int) -> None:
    rated(HOUR, 4)
    ids = [enqueue(session, "a", **given) for given in ({}, {"cost": 2}, {}, {})]

    assert taken(session, limit) == ids[:3]


@pytest.mark.parametrize(
    "end",
    [
        "pgqueue_cancel(%s)",
        "pgqueue_discard(%s)",
        "pgqueue_reschedule(%s, clock_timestamp() + interval '1 day')",
    ],
)
def test_those_behind_a_message_that_waits_for_tokens_go_on_when_it_is_gone(
    session: Session, rated: Rated, end: str
) -> None:
    rated(HOUR, 100)
    first, costly, cheap = (enqueue(session, "a", cost=cost) for cost in (50, 100, 1))
    assert taken(session) == [first]

    session.execute(f"SELECT {end}", [[costly]])

    assert taken(session) == [cheap]


def test_a_more_urgent_message_does_not_wait_for_the_tokens_of_another(session: Session, rated: Rated) -> None:
    rated(HOUR, 100)
    first, _ = (enqueue(session, "a", cost=cost) for cost in (50, 100))
    assert taken(session) == [first]
    urgent = enqueue(session, "a", cost=1, priority=1)

    assert taken(session) == [urgent]


def test_a_message_that_costs_more_than_the_burst_waits_for_a_full_bucket(session: Session, rated: Rated) -> None:
    rated(HOUR, 5)
    ids = [enqueue(session, "a", cost=cost) for cost in (1, 50)]
    assert taken(session) == ids[:1], "one token is missing"

    rated("1 microsecond", 5)

    assert taken(session) == ids[1:]


def test_a_debt_is_paid_before_the_next_message_starts(session: Session, rated: Rated) -> None:
    rated("10 milliseconds", 5)
    ids = [enqueue(session, "a", cost=cost) for cost in (50, 1)]

    moments = []
    ends = time.monotonic() + 20
    while len(moments) < 2 and time.monotonic() < ends:
        moments += [
            one(session, "SELECT leased_at FROM pgqueue_message WHERE id = %s", lease.id) for lease in dequeue(session)
        ]

    assert column(session, "SELECT id FROM pgqueue_message ORDER BY leased_at") == ids
    assert (moments[1] - moments[0]).total_seconds() >= 0.46, "45 tokens of debt, and one for the message"


def test_a_debt_is_forgotten_by_no_later_dequeue(session: Session, rated: Rated) -> None:
    """The time of the bucket is bounded, so that a shorter interval holds at once; the debt is not cut off by that."""
    rated(HOUR, 2)
    enqueue(session, "a", cost=1000)
    enqueue(session, "a")
    assert len(taken(session)) == 1

    rated("1 minute", 2)

    assert taken(session) == []
    due = one(session, "SELECT extract(epoch FROM pgqueue_next_due('{default}'))")
    assert due == pytest.approx(999 * 60, abs=60), "1,000 tokens, less those of the bucket, and one for the next"


def test_a_cost_beyond_all_times_breaks_nothing(session: Session, rated: Rated) -> None:
    rated("1 day", 1)
    enqueue(session, "a", cost=2**31 - 1)
    enqueue(session, "a")
    [lease] = dequeue(session)

    assert taken(session) == []
    assert spend(session, lease, 1) == 2**31 - 1
    tick(session)
    taken(session, 10)
    assert one(session, "SELECT count(*) FROM pgqueue_limit_health()") <= 1


def test_the_next_turn_pays_what_a_message_cost_more(session: Session, rated: Rated) -> None:
    rated(HOUR, 10)
    for _ in range(3):
        enqueue(session, "a")
    [first] = dequeue(session)

    assert spend(session, first, 9) == 1
    [second] = dequeue(session)
    assert spend(session, second, 500) == 1

    assert taken(session) == []


def test_the_next_turn_finds_what_a_message_cost_less(session: Session, rated: Rated) -> None:
    rated(HOUR, 10)
    enqueue(session, "a", cost=10)
    [lease] = dequeue(session)
    ids = [enqueue(session, "a", cost=cost) for cost in (5, 4, 1)]
    assert taken(session) == []

    assert spend(session, lease, 1) == 10

    assert taken(session) == ids[:2]
    assert one(session, "SELECT count(*) FROM pgqueue_spent") == 0, "it is given back once"


def test_a_correction_is_paid_once(session: Session, rated: Rated) -> None:
    rated(HOUR, 20)
    ids = [enqueue(session, "a") for _ in range(12)]
    [lease] = dequeue(session)
    spend(session, lease, 10)
    tick(session)

    assert taken(session, 3) == ids[1:11]


def test_a_message_that_is_set_aside_for_a_shared_limit_costs_no_rate(session: Session, rated: Rated) -> None:
    rated(HOUR, 10)
    limit_set(session, "stripe", max_concurrency=1, handlers=["work"])
    ids = [enqueue(session, "a", cost=4) for _ in range(2)]
    [first] = dequeue(session)
    assert taken(session) == [], "the other one waits for the limit"
    settle(session, [first])

    assert [lease.id for lease in drain(session)] == ids[1:]
    [small, large] = [enqueue(session, "a", cost=cost) for cost in (2, 1)]
    assert [lease.id for lease in drain(session)] == [small], f"8 of 10 tokens are used, and {large} finds none"


def test_the_tokens_of_a_message_that_is_set_aside_are_back_before_its_lane_is_free(session: Session) -> None:
    """A dequeue that found the lane without them, and got them later, would start one message too many."""
    make_channel(session, "a", release_interval=HOUR, release_burst=10)
    limit_set(session, "stripe", handlers=["work"])
    session.execute("SELECT pgqueue_limit_pause('stripe')")
    enqueue(session, "a", cost=4)

    taken_at = one(
        session,
        """
        SELECT t.taken_at FROM pgqueue_take('default', 1) AS t
        LEFT JOIN LATERAL pgqueue_lease(t.ids, t.taken_at, '1 minute', 'w', gen_random_uuid()) AS l ON true
    """,
    )

    assert one(session, "SELECT next_at FROM pgqueue_lane WHERE next_at > '-infinity'") <= taken_at
    assert one(session, "SELECT count(*) FROM pgqueue_arrival WHERE spent <> 0") == 0


def test_a_queue_is_dropped_beside_a_dequeue_that_takes_its_corrections(session: Session, business: Session) -> None:
    make_channel(session, "a", queue="gone")
    set_queue(session, "gone", release_interval=HOUR, release_burst=10)
    session.execute("INSERT INTO pgqueue_spent (queue, cost) VALUES ('gone', 1), ('gone', 2)")
    business.execute("DELETE FROM pgqueue_spent WHERE queue = 'gone' AND cost = 1")

    assert one(session, "SELECT outcome FROM pgqueue_queue_drop('gone')") == "dropped", "it does not wait"
    business.commit()
    assert one(session, "SELECT count(*) FROM pgqueue_spent") == 0


def test_an_expensive_message_is_not_overtaken_for_ever(session: Session) -> None:
    """In a queue with a rate, its channel keeps its place in the line, and the others wait."""
    set_queue(session, release_interval="5 milliseconds", release_burst=20)
    for name in "abc":
        make_channel(session, name)
    for _ in range(400):
        enqueue(session, "a")
        enqueue(session, "b")
    [huge] = [enqueue(session, "c", cost=20)]

    served: list[int] = []
    ends = time.monotonic() + 20
    while huge not in served and time.monotonic() < ends:
        served += [lease.id for lease in dequeue(session, 3)]

    assert huge in served
    assert len(served) < 60, "those that came before the look at it, and one round"


def test_a_queue_whose_rate_is_used_up_lets_workers_sleep(session: Session) -> None:
    make_channel(session, "a")
    set_queue(session, release_interval="1 minute", release_burst=20)
    enqueue(session, "a", cost=15)
    enqueue(session, "a", cost=15)
    assert len(taken(session)) == 1

    assert not one(session, "SELECT pgqueue_is_contended('{default}')")
    due = one(session, "SELECT extract(epoch FROM pgqueue_next_due('{default}'))")
    assert due == pytest.approx(600, abs=60), "five tokens are left, and the message needs 15"


def test_a_channel_whose_rate_is_used_up_lets_workers_sleep(session: Session) -> None:
    make_channel(session, "a", release_interval="1 minute", release_burst=20)
    enqueue(session, "a", cost=15)
    waits = enqueue(session, "a", cost=15)
    assert len(taken(session)) == 1

    assert not one(session, "SELECT pgqueue_is_contended('{default}')")
    due = one(session, "SELECT extract(epoch FROM pgqueue_next_due('{default}'))")
    assert due == pytest.approx(600, abs=60)
    sentence = one(session, "SELECT sentence FROM pgqueue_explain_message(%s) WHERE code = 'rate'", waits)
    assert "its next message costs 15" in sentence


def test_a_rolled_back_dequeue_has_cost_nothing(session: Session, business: Session, rated: Rated) -> None:
    rated(HOUR, 10)
    ids = [enqueue(session, "a", cost=cost) for cost in (6, 6)]
    assert [lease.id for lease in dequeue(business)] == ids[:1]
    assert taken(session) == [], "the other session holds the bucket"

    business.rollback()

    assert taken(session) == ids[:1]


@pytest.fixture
def charges(pg_url: str, session: Session) -> object:
    """Every lease that is ever committed, and what its message cost."""
    session.execute("CREATE TABLE charges (leased_at timestamptz, cost integer)")
    session.execute(
        "CREATE FUNCTION note_charge() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " INSERT INTO charges VALUES (NEW.leased_at, coalesce(NEW.cost, 1)); RETURN NULL; END $$"
    )
    session.execute(
        "CREATE TRIGGER charge AFTER UPDATE ON pgqueue_message FOR EACH ROW"
        " WHEN (NEW.status = 2 AND OLD.status <> 2) EXECUTE FUNCTION note_charge()"
    )
    yield
    with psycopg.connect(pg_url, autocommit=True) as fresh:
        fresh.execute("DROP FUNCTION note_charge CASCADE")
        fresh.execute("DROP TABLE charges")


@pytest.mark.parametrize("seed", seeds(1))
def test_workers_together_never_spend_more_than_the_rate(
    session: Session, connect: Connect, charges: None, rated: Rated, seed: int
) -> None:
    """In every window: the burst, and what has trickled in since. No message costs more than the burst."""
    interval, burst = 0.002, 12
    rated("2 milliseconds", burst)
    chance = Chance(seed, "costs")
    for _ in range(120):
        enqueue(session, "a", cost=chance.random.choice([None, 1, 2, 5, 12]))
    sessions = [connect(autocommit=True) for _ in range(4)]
    left = threading.Event()

    def work(place: int) -> Callable[[], None]:
        def run() -> None:
            mine = Chance(seed, f"worker {place}")
            ends = time.monotonic() + 150
            while not left.is_set() and time.monotonic() < ends:
                settle(sessions[place], dequeue(sessions[place], mine.random.choice([1, 1, 4])))
                if place == 0 and not one(sessions[place], "SELECT count(*) FROM pgqueue_message"):
                    left.set()
                mine.pause(0.003)

        return run

    together(*(work(place) for place in range(4)))

    rows = session.execute("SELECT leased_at, cost FROM charges ORDER BY leased_at").fetchall()
    times = [(leased_at - rows[0][0]).total_seconds() for leased_at, _ in rows]
    assert len(rows) == 120
    for start in range(len(rows)):
        spent = 0
        for end in range(start, len(rows)):
            spent += rows[end][1]
            assert spent <= burst + (times[end] - times[start]) / interval + 1e-6
    assert column(session, "SELECT id FROM pgqueue_message") == []
