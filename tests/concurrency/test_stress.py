"""Nothing is lost, doubled or left behind, however the sessions interleave.

Producers commit late or roll back, workers settle, give back and die, an operator changes limits, ticks run
without pause, one transaction pins the xmin horizon and another one writes for long. Then the producers stop,
and everything must come. A failure names its seed; PGQUEUE_STRESS=n tries n times as many.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress

import psycopg
import pytest

from tests.support.chance import Chance, seeds
from tests.support.sessions import Connect, Session, column, one, together
from tests.support.verbs import Lease, dequeue, enqueue, enqueue_many, make_channel, retry, settle

QUEUES = {"default": ["free", "free too", "one", "three", "slow", "paused", "edited"], "other": ["elsewhere"]}
LIMITS = {
    "one": {"max_concurrency": 1},
    "three": {"max_concurrency": 3},
    "slow": {"release_interval": "2 ms", "release_burst": 2},
}
SECONDS = 1.2


class Storm:
    def __init__(self, seed: int, connect: Connect, *, calm: bool) -> None:
        self.seed = seed
        self.connect = connect
        # Calm: so few messages that lanes come and go all the time. Otherwise a backlog builds up.
        self.calm = calm
        self.stop = threading.Event()
        self.committed: list[int] = []
        self.finished: list[int] = []
        self.errors: list[str] = []

    def produce(self, place: int) -> None:
        chance = Chance(self.seed, f"producer {place}")
        session = self.connect()
        while not self.stop.is_set():
            queue = chance.random.choice(["default", "default", "default", "other"])
            ids: list[int] = []
            for _ in range(chance.random.choice([1, 1, 2])):
                names = chance.random.choices(QUEUES[queue], k=chance.random.choice([1, 1, 4]))
                if len(names) > 1:
                    ids += enqueue_many(session, names, queue)
                else:
                    delay = chance.random.choice(["0", "0", "0", "3 ms"])
                    priority = chance.random.choice([0, 0, 5])
                    ids.append(enqueue(session, names[0], queue, delay=delay, priority=priority, max_attempts=1000))
            if chance.of(0.2):
                chance.pause(0.05)
            if chance.of(0.2):
                session.rollback()
            else:
                session.commit()
                self.committed += ids
            chance.pause(0.02 if self.calm else 0.002)

    def consume(self, place: int) -> None:
        chance = Chance(self.seed, f"consumer {place}")
        session = self.connect(autocommit=place != 0)
        while not self.stop.is_set():
            queue = chance.random.choice(["default", "default", "other"])
            dying = chance.of(0.05)
            leases = dequeue(
                session, chance.random.choice([1, 1, 12]), queue=queue, lease="1 microsecond" if dying else "1 minute"
            )
            if not session.autocommit:
                chance.pause(0.01)
                if chance.of(0.3):
                    session.rollback()
                    continue
                session.commit()
            if leases and not dying:
                chance.pause(0.003)
                self.finish(session, chance, leases)

    def finish(self, session: Session, chance: Chance, leases: list[Lease]) -> None:
        match chance.random.random():
            case dice if dice < 0.1:
                retry(session, leases)
            case dice if dice < 0.2:
                settle(session, leases, "defer")
            case dice if dice < 0.25:
                self.finished += settle(session, leases, "dead_letter", ["refused"] * len(leases))
            case _:
                self.finished += settle(session, leases)
        session.commit()

    def tick(self) -> None:
        session = self.connect(autocommit=True)
        while not self.stop.is_set():
            session.execute("SELECT pgqueue_tick()")

    def sweep(self) -> None:
        session = self.connect(autocommit=True)
        while not self.stop.is_set():
            session.execute("SELECT * FROM pgqueue_sweep()")
            time.sleep(0.01)

    def operate(self) -> None:
        """The last edits are made while all sessions are busy, and must take effect without help."""
        chance = Chance(self.seed, "operator")
        session = self.connect(autocommit=True)
        while not self.stop.is_set():
            session.execute("SELECT pgqueue_channel_pause('default', 'paused')")
            chance.pause(0.01)
            make_channel(session, "edited", max_concurrency=chance.random.choice([None, 1, 2]))
            session.execute("SELECT pgqueue_channel_resume('default', 'paused')")
            chance.pause(0.01)
            make_channel(session, "edited", release_interval=chance.random.choice([None, "1 ms"]))

    def hold(self) -> None:
        """A transaction that has written, and enqueues before it ends; it outlives many ticks."""
        chance = Chance(self.seed, "holder")
        session = self.connect()
        while not self.stop.is_set():
            one(session, "SELECT pg_current_xact_id()::text")
            ids = [enqueue(session, chance.random.choice(QUEUES["default"]), max_attempts=1000)]
            chance.pause(0.3)
            ids.append(enqueue(session, chance.random.choice(QUEUES["default"]), max_attempts=1000))
            session.commit()
            self.committed += ids

    def run(self) -> None:
        pin = self.connect()
        pin.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        pin.execute("SELECT count(*) FROM pgqueue_message")
        together(
            *(lambda place=place: self.produce(place) for place in range(2)),
            *(lambda place=place: self.consume(place) for place in range(4)),
            self.tick,
            self.sweep,
            self.operate,
            self.hold,
            lambda: self.stop.wait(SECONDS) or self.stop.set(),
        )
        self.drain()
        pin.rollback()

    def drain(self) -> None:
        """One worker, without maintenance but for the sweep that the dead ones need. Each ready message must come."""
        session = self.connect(autocommit=True)
        session.execute("SELECT * FROM pgqueue_sweep()")
        idle_since = time.monotonic()
        while one(session, "SELECT count(*) FROM pgqueue_message"):
            # Leases of workers that were stopped, and back-off, are not what is tested here.
            session.execute("UPDATE pgqueue_message SET lease_expires_at = '-infinity' WHERE status = 2")
            session.execute("UPDATE pgqueue_message SET dequeue_at = clock_timestamp() WHERE status = 3")
            session.execute("SELECT * FROM pgqueue_sweep()")
            for queue in QUEUES:
                while leases := dequeue(session, 5, queue=queue):
                    self.finished += settle(session, leases)
                    idle_since = time.monotonic()
            assert time.monotonic() - idle_since < 30, f"seed {self.seed}: left behind\n{state(session)}"


def state(session: Session) -> str:
    """Return the tables in which a person sees why a message does not come."""
    return "\n".join(
        f"{title}: {column(session, f'SELECT row_to_json(q)::text FROM ({sql}) AS q')}"
        for title, sql in {
            "messages": "SELECT c.name, m.status, count(*), min(m.id), max(m.id) FROM pgqueue_message AS m"
            " JOIN pgqueue_channel AS c ON c.id = m.channel_id GROUP BY 1, 2",
            "lanes": "SELECT c.name, l.* FROM pgqueue_lane AS l JOIN pgqueue_channel AS c ON c.id = l.channel_id",
            "arrivals": "SELECT * FROM pgqueue_arrival",
            "floor": "SELECT * FROM pgqueue_floor ORDER BY id DESC LIMIT 2",
            "channels": "SELECT name, max_concurrency, release_interval, paused_at FROM pgqueue_channel",
            "now": "SELECT clock_timestamp(), pg_current_snapshot()",
        }.items()
    )


@pytest.fixture
def channels(session: Session) -> None:
    for queue, names in QUEUES.items():
        for name in names:
            make_channel(session, name, queue, **LIMITS.get(name, {}))


@pytest.mark.parametrize("calm", [True, False], ids=["calm", "busy"])
@pytest.mark.parametrize("seed", seeds(3))
def test_nothing_is_left_behind(session: Session, connect: Connect, channels: None, seed: int, calm: bool) -> None:
    storm = Storm(seed, connect, calm=calm)

    storm.run()

    assert sorted(storm.finished) == sorted(storm.committed)
    archived = column(session, "SELECT id FROM pgqueue_archived_message")
    dead = column(session, "SELECT id FROM pgqueue_dead_letter")
    assert sorted(archived + dead) == sorted(storm.committed)
    assert one(session, "SELECT count(*) FROM pgqueue_channel_size WHERE live <> 0") == 0
    assert column(session, "SELECT channel_id FROM pgqueue_lane GROUP BY channel_id HAVING count(*) > 1") == []


@pytest.mark.parametrize("seed", seeds(2))
def test_one_channel_that_empties_all_the_time(session: Session, connect: Connect, seed: int) -> None:
    """Its lane is made, deleted, missed and found again."""
    make_channel(session, "default")
    sessions = [connect(autocommit=True) for _ in range(5)]
    done = threading.Event()
    left = [150, 150]
    finished: list[int] = []

    def produce(place: int) -> list[int]:
        chance = Chance(seed, f"producer {place}")
        ids = []
        for _ in range(150):
            ids.append(enqueue(sessions[place]))
            left[place] -= 1
            if chance.of(0.3):
                chance.pause(0.004)
        return ids

    def consume(place: int) -> None:
        empty = 0
        while empty < 20:
            leases = dequeue(sessions[place], 2)
            finished.extend(settle(sessions[place], leases))
            empty = 0 if leases or any(left) else empty + 1
        done.set()

    def tick() -> None:
        while not done.is_set():
            sessions[4].execute("SELECT pgqueue_tick()")

    first, second, *_ = together(lambda: produce(0), lambda: produce(1), lambda: consume(2), lambda: consume(3), tick)

    with suppress(psycopg.Error):
        session.rollback()
    assert sorted(finished) == sorted(first + second), state(session)
