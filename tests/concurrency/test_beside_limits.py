"""While a shared limit is far from full, dequeues of one message pass beside each other; the limit stays exact."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.concurrency.test_beside_gate import limit as limit_queue
from tests.concurrency.test_beside_gate import sides
from tests.concurrency.workers import Workers
from tests.support.chance import seeds
from tests.support.sessions import Connect, Session, column, one, together, wait_for_lock
from tests.support.verbs import dequeue, enqueue, enqueue_many, fill, limit_set, make_channel, settle
from verification.chaos.sabotage.defects import Defect
from verification.model_based.sabotage import installed

PLACES = {"max_concurrency": 20}
# One token of the burst is taken before.
TOKENS = {"release_interval": "1 hour", "release_burst": 301}
DEFECTS = [
    ("hold_side", "v_free >= 8", "v_free >= 1", (1, 8)),
    ("hold_limit", "pg_try_advisory_xact_lock(hashint8extended(p_limit_id, 7220))", "true", (1, 8)),
    ("hold_side", "EXIT WHEN v_held;", "v_held := true;", (1, 14)),
    ("dequeue", "pg_current_xact_id_if_assigned() IS NULL", "true", (3, 8)),
]
LEASED = "SELECT count(*) FROM pgqueue_message WHERE status = 2"


def limit(session: Session, most: int | None = None, **settings: object) -> None:
    """Limit the handler as if that had been so for long: then no dequeue looks for those that began before."""
    limit_set(session, "stripe", **({"max_concurrency": most} | settings), handlers=["work"])
    fill(session, "default", 1)
    settle(session, dequeue(session))


# The limit of a queue, which has a gate, and a shared limit.
BOTH = pytest.mark.parametrize("set_limit", [limit_queue, limit], ids=["queue", "shared limit"])


@BOTH
def test_an_open_dequeue_holds_up_no_other_one(
    session: Session, connect: Connect, set_limit: Callable[..., None]
) -> None:
    set_limit(session, 20)
    fill(session, "default", 40)
    others = [connect() for _ in range(7)]

    assert [len(dequeue(other)) for other in others] == [1] * 7
    assert len(dequeue(session)) == 1
    assert len(dequeue(session, 5)) == 0, "many at once need the limit alone"
    for other in others:
        other.commit()
    assert sides(session) == (8 if set_limit is limit_queue else 0)
    assert len(dequeue(session, 40)) == 12, "that counts what was leased beside it"


@BOTH
def test_only_eight_pass_at_a_time(session: Session, connect: Connect, set_limit: Callable[..., None]) -> None:
    set_limit(session, 40)
    fill(session, "default", 20)
    others = [connect() for _ in range(9)]

    assert [len(dequeue(other)) for other in others] == [1] * 8 + [0]


@BOTH
def test_a_transaction_passes_once(
    session: Session, business: Session, other: Session, set_limit: Callable[..., None]
) -> None:
    """The others count one place of each side that is held."""
    set_limit(session, 40)
    fill(session, "default", 20)

    assert len(dequeue(business)) == 1
    assert len(dequeue(business)) == 1, "holding the limit, or the gate"
    assert len(dequeue(other)) == 0
    business.commit()
    assert len(dequeue(other)) == 1


def test_places_that_are_free_again_are_deleted_in_time(session: Session) -> None:
    limit(session, 30)
    fill(session, "default", 100)

    for _ in range(100):
        settle(session, dequeue(session))

    assert one(session, "SELECT count(*) FROM pgqueue_place") < 30
    assert not one(session, "SELECT count(*) FROM pgqueue_message")


@pytest.mark.parametrize(
    "settings", [{"max_cost": 50}, {"release_interval": "1 microsecond", "release_burst": 50}, {"per": "channel"}]
)
def test_other_limits_are_taken_by_one_dequeue_at_a_time(
    session: Session, business: Session, settings: dict[str, object]
) -> None:
    limit(session, 50, **settings)
    fill(session, "default", 4)

    assert len(dequeue(business)) == 1
    assert len(dequeue(session)) == 0


@pytest.mark.parametrize("statement", [
    """SELECT pgqueue_limit_set('stripe', '{"max_concurrency": 1}')""",
    "SELECT pgqueue_limit_pause('stripe')",
    "SELECT pgqueue_limit_drop('stripe')",
])  # fmt: skip
def test_a_change_waits_for_the_leases_that_are_being_taken(
    session: Session, business: Session, other: Session, statement: str
) -> None:
    limit(session, 40)
    fill(session, "default", 4)
    dequeue(business)

    other.execute("SET lock_timeout = 0")

    def end() -> None:
        wait_for_lock(session, other)
        assert not dequeue(session), "none begins meanwhile"
        business.commit()

    together(lambda: other.execute(statement), end)


def test_a_promotion_passes_beside_dequeues(session: Session, business: Session) -> None:
    limit(session, 40)
    [first, *_] = enqueue_many(session, ["default"] * 3)
    session.execute(
        "UPDATE pgqueue_message SET status = 3, waits_for = (SELECT id FROM pgqueue_limit) WHERE id = %s", [first]
    )
    assert len(dequeue(business)) == 1

    session.execute("SELECT pgqueue_promote_waiting(NULL, 100, clock_timestamp())")

    assert column(session, "SELECT status FROM pgqueue_message WHERE id = %s", first) == [1]


def total(session: Session, connect: Connect, settings: dict[str, object], calls: int, transactions: int = 8) -> int:
    """Return how many messages are leased at the end under a limit of 20 places, or of 300 tokens.

    All but 12 are taken at first. Then open transactions make so many calls, one after the other, and one more each.
    Beside them a session takes many messages.
    """
    limit(session, **settings)
    fill(session, "default", 400)
    first = 8 if settings is PLACES else 288
    assert len(dequeue(session, first)) == first
    others = [connect() for _ in range(transactions)]
    for rounds in (calls, 1):
        for _ in range(rounds):
            for other in others:
                dequeue(other)
        dequeue(session, 7)
        for other in others:
            other.commit()
    for _ in range(25):
        dequeue(session)
    dequeue(session, 40)
    return int(one(session, LEASED))


@pytest.mark.parametrize(("settings", "all_of_it"), [(PLACES, 20), (TOKENS, 300)], ids=["places", "tokens"])
@pytest.mark.parametrize("how", [(1, 8), (1, 14), (3, 8)])
def test_all_of_a_limit_is_given_and_no_more(
    session: Session, connect: Connect, how: tuple[int, int], settings: dict[str, object], all_of_it: int
) -> None:
    assert total(session, connect, settings, *how) == all_of_it


@pytest.mark.parametrize(
    ("function", "guard", "instead", "how"),
    DEFECTS,
    ids=["until it is full", "beside one alone", "any number of sides", "again and again"],
)
def test_more_is_given_without_a_guard(
    session: Session, connect: Connect, function: str, guard: str, instead: str, how: tuple[int, int]
) -> None:
    with installed(session, Defect("", function, guard, instead)):
        assert total(session, connect, PLACES, *how) > 20


def test_a_full_bucket_that_is_shared_gives_no_more_than_its_burst(session: Session, business: Session) -> None:
    """Time in which the bucket was full fills it no further, however late the tokens are written down."""
    limit(session, release_interval="1 hour", release_burst=301)
    fill(session, "default", 400)
    session.execute("UPDATE pgqueue_meter SET filled_at = filled_at - interval '1 day'")
    assert [len(dequeue(session)) for _ in range(10)] == [1] * 10
    assert one(session, "SELECT count(*) FROM pgqueue_spent") == 10

    assert len(dequeue(session, 400)) == 291


@pytest.mark.parametrize("cost", [1, 2])
def test_a_message_that_costs_more_holds_the_rate_alone(session: Session, cost: int) -> None:
    limit(session, release_interval="1 hour", release_burst=301)
    enqueue(session, cost=cost)
    assert dequeue(session)

    assert one(session, "SELECT count(*) FROM pgqueue_spent") == (cost == 1)


class LimitWorkers(Workers):
    """Count all leases after each dequeue. ``peak``: the most that were seen."""

    peak = 0

    def versions(self, session: Session) -> None:
        """Return nothing: the limit is not edited."""

    def count(self, session: Session, before: None, leases: list[object]) -> None:
        """Count the leases of all channels."""
        most, count = session.execute(f"SELECT max_concurrency, ({LEASED}) FROM pgqueue_limit").fetchone()
        if leases and count > most:
            self.violations.append(f"{count} leased, limit {most}")
        self.peak = max(count, self.peak)


@pytest.mark.parametrize("most", [17, 20])
@pytest.mark.parametrize("seed", seeds(1))
def test_the_limit_is_never_exceeded(session: Session, connect: Connect, seed: int, most: int) -> None:
    for name in "abc":
        make_channel(session, name)
    limit(session, most)
    enqueue_many(session, "abc" * 60)

    LimitWorkers(seed, connect).run()
