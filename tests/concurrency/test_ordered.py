"""An ordered channel keeps its order where transactions meet, and under many workers that fail and die."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from tests.support.chance import Chance, seeds
from tests.support.sessions import Connect, Session, one, together
from tests.support.verbs import dequeue, enqueue, enqueue_many, fill, make_channel, retry, settle

WORKERS = 6
DEFER = "SELECT pgqueue_defer(%s, %s, p_delays => ARRAY[interval '3 ms'])"
DEAD = "SELECT pgqueue_dead_letter(%s, %s, array_fill('refused'::text, ARRAY[1]))"


def die(session: Session, channel: str = "default") -> int:
    """Dequeue the next message, and make it a dead letter. Returns its id."""
    [lease] = dequeue(session, 10)
    session.execute(DEAD, [[lease.id], [lease.token]])
    return lease.id


def test_a_message_that_commits_late_does_not_pass_the_one_that_was_delivered(
    session: Session, business: Session
) -> None:
    make_channel(session, "default", ordered=True)
    late = enqueue(business)
    first = enqueue(session)
    [lease] = dequeue(session)
    assert lease.id == first > late
    business.commit()
    retry(session, [lease], "1 hour")
    assert dequeue(session, 10) == [], "the late one is first by its place, and waits all the same"
    session.execute("SELECT pgqueue_reschedule(%s)", [[first]])
    [lease] = dequeue(session, 10)
    assert lease.id == first
    settle(session, [lease])
    assert [lease.id for lease in dequeue(session, 10)] == [late]


def test_a_message_that_another_transaction_holds_is_not_passed_over(session: Session, business: Session) -> None:
    make_channel(session, "default", ordered=True)
    first, _ = enqueue(session), enqueue(session)
    business.execute("SELECT pgqueue_edit(%s, '1')", [first])
    assert dequeue(session, 10) == []
    business.rollback()
    assert [lease.id for lease in dequeue(session, 10)] == [first]


def test_a_message_whose_arrival_another_fold_holds_is_not_passed_over(session: Session, business: Session) -> None:
    """Two folds at once may share the arrivals of a channel: the later ones may come into the lane first."""
    make_channel(session, "default", ordered=True)
    first, second = enqueue(session), enqueue(session)
    business.execute("SELECT FROM pgqueue_arrival WHERE floor_id = %s FOR UPDATE", [first])
    [lease] = dequeue(session)
    assert lease.id == first
    settle(session, [lease])
    assert [lease.id for lease in dequeue(session)] == [second]


def test_a_message_whose_arrival_can_wait_is_not_passed_over(session: Session, business: Session) -> None:
    """Its channel was emptied before its transaction committed, and a later message has brought the lane back."""
    make_channel(session, "default", ordered=True)
    make_channel(session, "free")
    fill(session, "free", 10)
    dequeue(session)
    before = enqueue(session)
    session.execute("SELECT pgqueue_tick()")
    waiting = enqueue(business)
    while (lease := dequeue(session)[0]).id != before:
        pass
    settle(session, [lease])
    assert one(session, "SELECT floor_at = 'infinity' FROM pgqueue_lane WHERE current_id = %s", before)
    business.commit()
    assert one(session, "SELECT lazy FROM pgqueue_arrival WHERE floor_id = %s", waiting)
    later = enqueue(session)
    given = [lease.id for _ in range(3) for lease in dequeue(session) if lease.channel == "default"]
    assert waiting < later
    assert given == [waiting]


def test_a_dequeue_that_is_rolled_back_leaves_its_message_the_next(session: Session, business: Session) -> None:
    make_channel(session, "default", ordered=True)
    first, _ = enqueue(session), enqueue(session)
    assert [lease.id for lease in dequeue(business)] == [first]
    assert dequeue(session, 10) == []
    business.rollback()
    assert [lease.id for lease in dequeue(session, 10)] == [first]


def test_a_dead_letter_stops_the_channel_also_while_a_transaction_edits_it(session: Session, business: Session) -> None:
    """The settlement must not wait for the edit, and nothing may be delivered behind the dead letter."""
    make_channel(session, "default", ordered=True, on_dead="pause")
    enqueue_many(session, ["default"] * 2)
    make_channel(business, "default", weight=2)
    dead = die(session)
    assert dequeue(session, 10) == []
    assert one(session, "SELECT paused_at FROM pgqueue_channel") is None
    business.commit()
    assert dequeue(session, 10) == []
    assert one(session, "SELECT pause_reason FROM pgqueue_channel") == f"message {dead} became a dead letter (refused)"
    session.execute("SELECT pgqueue_channel_resume('default', 'default')")
    assert len(dequeue(session, 10)) == 1


def test_a_redrive_before_the_pause_lets_the_channel_go_on(session: Session, business: Session) -> None:
    make_channel(session, "default", ordered=True, on_dead="pause")
    enqueue_many(session, ["default"] * 2)
    make_channel(business, "default", weight=2)
    [(_, again)] = session.execute("SELECT old_id, new_id FROM pgqueue_redrive(%s)", [[die(session)]]).fetchall()
    assert [lease.id for lease in dequeue(session, 10)] == [again]
    business.commit()
    assert one(session, "SELECT paused_at FROM pgqueue_channel") is None


def test_a_redrive_does_not_wait_for_a_transaction_that_edits_the_channel(session: Session, business: Session) -> None:
    make_channel(session, "default", ordered=True, on_dead="pause")
    enqueue_many(session, ["default"] * 2)
    dead = die(session)
    make_channel(business, "default", weight=2)
    session.execute("SELECT pgqueue_redrive(%s)", [[dead]])
    assert dequeue(session, 10) == [], "the operator resumes it"


LOG_OF_LEASES = """
CREATE TABLE given (place bigserial, channel_id bigint, id bigint, others bigint);
CREATE FUNCTION note_lease() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO given (channel_id, id, others)
    SELECT NEW.channel_id, NEW.id, count(*) FROM pgqueue_message AS m
    WHERE m.channel_id = NEW.channel_id AND m.status = 2 AND m.id <> NEW.id;
    RETURN NULL;
END $$;
CREATE TRIGGER note_lease AFTER UPDATE ON pgqueue_message FOR EACH ROW
WHEN (OLD.status <> 2 AND NEW.status = 2) EXECUTE FUNCTION note_lease();
"""


@pytest.fixture
def log_of_leases(session: Session) -> Iterator[None]:
    """Write down each lease while its transaction holds the lane: so in the order of the leases of a channel."""
    session.execute(LOG_OF_LEASES)
    yield
    session.execute("DROP FUNCTION note_lease CASCADE; DROP TABLE given")


class OrderedWorkers:
    """Run workers that complete, fail, defer, refuse and die."""

    def __init__(self, seed: int, connect: Connect) -> None:
        self.seed = seed
        self.sessions = [connect(autocommit=True) for _ in range(WORKERS)]
        self.keeper = connect(autocommit=True)
        self.done = threading.Event()

    def work(self, place: int) -> None:
        chance = Chance(self.seed, f"worker {place}")
        session = self.sessions[place]
        while not self.done.is_set():
            dying = chance.of(0.1)
            for lease in dequeue(session, chance.random.choice([1, 1, 5]), lease="1 ms" if dying else "1 minute"):
                if dying:
                    continue
                chance.pause(0.002)
                match chance.random.random():
                    case dice if dice < 0.25:
                        retry(session, [lease], chance.random.choice(["0", "5 ms"]))
                    case dice if dice < 0.35:
                        session.execute(DEFER, [[lease.id], [lease.token]])
                    case dice if dice < 0.4:
                        session.execute(DEAD, [[lease.id], [lease.token]])
                    case _:
                        settle(session, [lease])

    def sweep(self) -> None:
        """Sweep until everything is settled."""
        for _ in range(5000):
            self.keeper.execute("SELECT * FROM pgqueue_sweep()")
            if not one(self.keeper, "SELECT count(*) FROM pgqueue_message"):
                break
            self.keeper.execute("SELECT pg_sleep(0.005)")
        self.done.set()


@pytest.mark.parametrize("seed", seeds(2))
@pytest.mark.usefixtures("log_of_leases")
def test_the_order_holds_under_workers_that_fail_and_die(session: Session, connect: Connect, seed: int) -> None:
    channels = {name: make_channel(session, name, ordered=name != "free") for name in ("a", "b", "free")}
    sent: dict[str, list[int]] = {name: [] for name in channels}
    for _ in range(40):
        for name in channels:
            sent[name].append(enqueue(session, name, backoff="1 ms", max_attempts=4))
    workers = OrderedWorkers(seed, connect)
    together(*(lambda place=place: workers.work(place) for place in range(WORKERS)), workers.sweep)
    assert one(session, "SELECT count(*) FROM pgqueue_message") == 0
    given = {
        name: session.execute("SELECT id, others FROM given WHERE channel_id = %s ORDER BY place", [channel]).fetchall()
        for name, channel in channels.items()
    }
    for name in ("a", "b"):
        ids = [message for message, _ in given[name]]
        # Each message is given once or several times, and then the next.
        assert ids == sorted(ids)
        assert sorted(set(ids)) == sent[name]
        assert len(ids) > len(sent[name])
        assert {others for _, others in given[name]} == {0}
    assert max(others for _, others in given["free"]) > 0, "elsewhere the workers overtake each other"
