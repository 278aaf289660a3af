"""C7: max_concurrency, release_interval and pause hold exactly at every commit, redeliveries included."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import pairwise

import psycopg
import pytest

from tests.support.chance import Chance, seeds
from tests.support.sessions import Session, column, one, together, wait_for_lock
from tests.support.verbs import dequeue, drain, enqueue, enqueue_many, fill, make_channel, retry, settle, tick

WORKERS = 8
LEASED = """
SELECT c.name, c.max_concurrency, c.xmin::text, count(m.id) FROM pgqueue_channel AS c
LEFT JOIN pgqueue_message AS m ON m.channel_id = c.id AND m.status = 2
WHERE c.name = ANY (%s) GROUP BY c.id
"""


def versions(session: Session) -> dict[str, str]:
    """By channel the transaction that wrote its row."""
    return dict(session.execute("SELECT name, xmin::text FROM pgqueue_channel").fetchall())


class Crew:
    """Workers that hold leases for a moment, give some back, and die on some. Each dequeue then counts the leases."""

    def __init__(self, seed: int, connect: Callable[..., Session], queue: str = "default") -> None:
        self.seed = seed
        self.queue = queue
        self.sessions = [connect() for _ in range(WORKERS)]
        self.keeper = connect(autocommit=True)
        self.done = threading.Event()
        self.violations: list[str] = []
        self.peak: dict[str, int] = {}

    def work(self, place: int) -> None:
        chance = Chance(self.seed, f"worker {place}")
        session = self.sessions[place]
        while not self.done.is_set():
            before = versions(session)
            dying = chance.of(0.1)
            leases = dequeue(session, chance.random.choice([1, 1, 5]), lease="1 microsecond" if dying else "1 minute")
            channels = [list({lease.channel for lease in leases})]
            for name, limit, version, count in session.execute(LEASED, channels).fetchall():
                # A limit that is edited in the middle of this transaction, also to and fro, holds from the next one on.
                if limit is not None and version == before[name] and count > limit:
                    self.violations.append(f"{name}: {count} leased, limit {limit}")
                self.peak[name] = max(count, self.peak.get(name, 0))
            session.commit()
            if not leases or dying:
                continue
            chance.pause(0.004)
            try:
                match chance.random.random():
                    case dice if dice < 0.1:
                        retry(session, leases)
                    case dice if dice < 0.2:
                        settle(session, leases, "defer")
                    case _:
                        settle(session, leases)
            finally:
                session.commit()

    def sweep(self) -> None:
        """Until everything is settled."""
        for _ in range(5000):
            self.keeper.execute("SELECT * FROM pgqueue_sweep()")
            # Back-off is not what is tested here.
            self.keeper.execute("UPDATE pgqueue_message SET dequeue_at = clock_timestamp() WHERE status = 3")
            if not one(self.keeper, "SELECT count(*) FROM pgqueue_message"):
                break
            self.keeper.execute("SELECT pg_sleep(0.005)")
        self.done.set()

    def run(self, *more: Callable[[], object]) -> None:
        together(*(lambda place=place: self.work(place) for place in range(WORKERS)), self.sweep, *more)
        assert self.violations == []
        assert one(self.keeper, "SELECT count(*) FROM pgqueue_message") == 0


@pytest.mark.parametrize("seed", seeds(2))
def test_max_concurrency_is_never_exceeded(session: Session, connect: Callable[..., Session], seed: int) -> None:
    wanted = {"one": 1, "three": 3, "free": None}
    for name, limit in wanted.items():
        make_channel(session, name, max_concurrency=limit)
        for _ in range(40):
            enqueue(session, name, max_attempts=1000)
    crew = Crew(seed, connect)

    crew.run()

    # Reached, too: a limit that lets nobody through would hold as well.
    assert crew.peak["one"] == 1
    assert crew.peak["three"] == 3


def test_a_large_call_gives_a_limited_channel_one_turn(session: Session) -> None:
    """What it took is not leased yet, and would not be counted at a second one."""
    make_channel(session, "a", max_concurrency=4)
    enqueue_many(session, ["a"] * 10)
    for name in ("b", "c"):
        make_channel(session, name)
        enqueue(session, name)
    assert sorted(lease.channel for lease in dequeue(session, 9)) == ["a", "a", "a", "b", "c"]
    assert [lease.channel for lease in dequeue(session, 9)] == ["a"]


@pytest.mark.parametrize("seed", seeds(2))
def test_limits_that_change_all_the_time(session: Session, connect: Callable[..., Session], seed: int) -> None:
    names = ["a", "b"]
    for name in names:
        make_channel(session, name, max_concurrency=1)
        for _ in range(80):
            enqueue(session, name, max_attempts=1000)
    crew = Crew(seed, connect)
    operator = connect(autocommit=True)

    def edit() -> None:
        chance = Chance(seed, "operator")
        while not crew.done.is_set():
            name = chance.random.choice(names)
            match chance.random.randrange(4):
                case 0:
                    operator.execute("SELECT pgqueue_channel_pause('default', %s)", [name])
                case 1 | 2:
                    operator.execute("SELECT pgqueue_channel_resume('default', %s)", [name])
                case 3:
                    make_channel(operator, name, max_concurrency=chance.random.choice([1, 2, 4]))
            chance.pause(0.01)
            if one(operator, "SELECT count(*) FROM pgqueue_message") < 20:
                for paused in names:
                    operator.execute("SELECT pgqueue_channel_resume('default', %s)", [paused])
                return

    crew.run(edit)


def test_a_limit_counts_the_leases_that_were_being_taken_when_it_came(
    session: Session, business: Session, connect: Callable[..., Session]
) -> None:
    """A channel without limits is served without its lane: what commits after the limit was set counts, too."""
    make_channel(session, "a")
    fill(session, "a", 6)
    tick(session)
    holder = connect()
    first = dequeue(holder, 1)  # has the lane
    early = dequeue(business, 1)  # is served without it
    assert len(early) == 1
    settle(holder, first)
    holder.commit()
    make_channel(session, "a", max_concurrency=1)
    settle(session, dequeue(session, 1))
    business.commit()

    assert dequeue(session, 5) == []
    settle(session, early)
    assert len(dequeue(session, 5)) == 1


@pytest.mark.parametrize("count", [1, 3])
def test_expired_leases_count_until_they_are_taken_back(session: Session, business: Session, count: int) -> None:
    make_channel(session, "a", max_concurrency=count)
    for _ in range(8):
        enqueue(session, "a", max_attempts=1 if count == 1 else 5)
    leases = dequeue(session, 5, lease="1 microsecond")
    assert len(leases) == count
    settle(business, leases, "heartbeat")
    assert dequeue(session, 5) == []
    business.rollback()

    session.execute("SELECT * FROM pgqueue_sweep()")

    assert len(dequeue(session, 5)) == count


def test_a_lowered_limit_waits_for_the_leases_that_are_out(session: Session) -> None:
    make_channel(session, "a", max_concurrency=3)
    fill(session, "a", 6)
    leases = dequeue(session, 5)
    make_channel(session, "a", max_concurrency=1)
    settle(session, leases[:2])
    assert dequeue(session, 5) == []
    settle(session, leases[2:])
    assert len(dequeue(session, 5)) == 1


def test_a_rolled_back_dequeue_frees_its_places(session: Session, business: Session) -> None:
    make_channel(session, "a", max_concurrency=2)
    fill(session, "a", 4)
    assert len(dequeue(business, 5)) == 2
    assert dequeue(session, 5) == []
    business.rollback()

    assert len(dequeue(session, 5)) == 2


def gaps(session: Session) -> list[float]:
    """Seconds between successive leases, as the database wrote them."""
    return [
        (b - a).total_seconds() for a, b in pairwise(column(session, "SELECT leased_at FROM audit ORDER BY leased_at"))
    ]


@pytest.fixture
def audit(pg_url: str, session: Session) -> object:
    """Every lease that is ever committed."""
    session.execute("CREATE TABLE audit (channel_id bigint, leased_at timestamptz)")
    session.execute(
        "CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " INSERT INTO audit VALUES (NEW.channel_id, NEW.leased_at); RETURN NULL; END $$"
    )
    session.execute(
        "CREATE TRIGGER audit AFTER UPDATE ON pgqueue_message FOR EACH ROW"
        " WHEN (NEW.status = 2 AND OLD.status = 1) EXECUTE FUNCTION audit()"
    )
    yield
    with psycopg.connect(pg_url, autocommit=True) as fresh:
        fresh.execute("DROP FUNCTION audit CASCADE")
        fresh.execute("DROP TABLE audit")


@pytest.mark.parametrize("burst", [1, 3])
@pytest.mark.parametrize("seed", seeds(1))
def test_a_rate_is_never_exceeded(
    session: Session, connect: Callable[..., Session], audit: None, burst: int, seed: int
) -> None:
    """Redeliveries count. With a burst of one, no gap is shorter than the interval: tolerance zero."""
    interval = 0.015
    make_channel(session, "slow", release_interval="15 ms", release_burst=burst)
    make_channel(session, "busy")
    for _ in range(30):
        enqueue(session, "slow", max_attempts=1000)
        enqueue(session, "busy", max_attempts=1000)

    Crew(seed, connect).run()

    session.execute("DELETE FROM audit WHERE channel_id = (SELECT id FROM pgqueue_channel WHERE name = 'busy')")
    moments = column(session, "SELECT leased_at FROM audit ORDER BY leased_at")
    # From the first one on: a timestamp of today has no exact microseconds as a float.
    times = [(moment - moments[0]).total_seconds() for moment in moments]
    assert len(times) >= 30
    if burst == 1:
        assert min(gaps(session)) >= interval
    # Token bucket: in every window, no more than the burst and what has trickled in since.
    for start in range(len(times)):
        for end in range(start, len(times)):
            assert end - start + 1 <= burst + (times[end] - times[start]) / interval + 1e-6


def test_a_slow_dequeue_does_not_shorten_the_next_gap(
    session: Session, connect: Callable[..., Session], audit: None
) -> None:
    """The rate counts from the moment of the lease, not from the moment when the call began."""
    make_channel(session, "slow", release_interval="400 ms")
    fill(session, "slow", 2)
    tick(session)
    holder, walker = connect(), connect(autocommit=True)
    holder.execute("ALTER SEQUENCE pgqueue_lane_seq OWNED BY NONE")

    def release() -> None:
        wait_for_lock(session, walker)
        session.execute("SELECT pg_sleep(0.3)")
        holder.rollback()

    together(lambda: dequeue(walker, 1), release)
    while not dequeue(session, 1):
        pass

    assert min(gaps(session)) >= 0.4


def test_a_burst_comes_at_once_after_a_quiet_time(session: Session) -> None:
    make_channel(session, "slow", release_interval="1 hour", release_burst=3)
    fill(session, "slow", 10)

    assert len(drain(session, 1)) == 3
    assert drain(session, 10) == []


def test_an_interval_that_is_shortened_holds_at_once(session: Session) -> None:
    make_channel(session, "slow", release_interval="1 hour")
    fill(session, "slow", 3)
    assert len(dequeue(session, 5)) == 1
    assert dequeue(session, 5) == []

    make_channel(session, "slow", release_interval="1 ms")

    taken = 0
    for _ in range(20):
        taken += len(dequeue(session, 5))
        session.execute("SELECT pg_sleep(0.002)")
    assert taken == 2


def test_a_paused_channel_delivers_nothing_until_it_is_resumed(session: Session, business: Session) -> None:
    make_channel(session, "a")
    fill(session, "a", 3)
    assert len(dequeue(business, 1)) == 1  # under way
    session.execute("SELECT pgqueue_channel_pause('default', 'a', p_reason => 'a test')")
    business.commit()
    fill(session, "a", 3)
    for _ in range(3):
        assert dequeue(session, 5) == []
        tick(session)

    session.execute("SELECT pgqueue_channel_resume('default', 'a')")

    assert len(drain(session)) == 5
