"""The rule of a limit for each channel, checked in a random history; a defect of each guard is noticed."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from tests.support.sessions import Session, column, one
from tests.support.verbs import Lease, dequeue, enqueue, limit_set, make_channel, settle, tick
from verification.chaos.sabotage.channel_limits import DEFECTS
from verification.chaos.sabotage.defects import Defect

STEPS = 80
CHANNELS = ("a", "b", "c")
MOST, BURST = 2, 6
RUNNING = """
SELECT c.name, count(*) FROM pgqueue_message AS m JOIN pgqueue_channel AS c ON c.id = m.channel_id
WHERE m.status = 2 AND m.limits IS NOT NULL GROUP BY 1
"""


def broken_rules(session: Session, seed: int) -> Counter[str]:
    """Play a random history of one limit, and count how often each rule was broken.

    One session plays it, and no token comes within it but by turning the clocks of the meters back, so the rules are
    exact: a channel runs ``MOST`` messages at a time at most, and takes the tokens that it has, at least in the end.
    """
    chance, broken = Random(seed), Counter[str]()
    rate = {"release_interval": "1 hour", "release_burst": BURST}
    limit_set(session, "mails", max_concurrency=MOST, per="channel", **rate)
    # What a channel may still take. Another per begins with a full rate.
    tokens = Counter(dict.fromkeys(CHANNELS, BURST))
    most: int | None = MOST
    held: list[Lease] = []
    for _ in range(STEPS):
        for channel in CHANNELS:
            enqueue(session, channel, limits=["mails"], max_attempts=1000)
        match chance.randrange(8):
            case 0:
                session.execute("UPDATE pgqueue_meter SET filled_at = filled_at - interval '100 hours'")
                tokens = Counter(dict.fromkeys(CHANNELS, BURST))
            case 1:
                session.execute("UPDATE pgqueue_limit SET created_at = created_at - interval '2 hours'")
                session.execute("SELECT pgqueue_prune_limits()")
            case 2:
                most = chance.choice([1, MOST, None])
                limit_set(session, "mails", max_concurrency=most)
            case 3 if not column(session, "SELECT 1 FROM pgqueue_message WHERE waits_for IS NOT NULL"):
                limit_set(session, "mails", per=None)
                limit_set(session, "mails", per="channel")
                tokens = Counter(dict.fromkeys(CHANNELS, BURST))
            case _:
                tick(session)
        before = Counter(dict(session.execute(RUNNING).fetchall()))
        taken = [*dequeue(session, 5), *dequeue(session), *dequeue(session, 3)]
        held += taken
        new = Counter(lease.channel for lease in taken)
        running = before + new
        for channel in CHANNELS:
            if most is not None and new[channel] and running[channel] > most:
                broken["ran too many"] += 1
            if new[channel] > tokens[channel]:
                broken["took too many tokens"] += 1
            tokens[channel] -= new[channel]
        if not taken and any(tokens[name] >= 1 and (most is None or running[name] < most) for name in CHANNELS):
            for _look in range(10):
                tick(session)
                if taken := dequeue(session):
                    held += taken
                    tokens[taken[0].channel] -= 1
                    break
            else:
                broken["served none"] += 1
        if held and chance.random() < 0.7:
            chance.shuffle(held)
            done = chance.randint(1, len(held))
            settle(session, held[:done])
            held = held[done:]
    settle(session, held)
    session.execute("SELECT pgqueue_limit_drop('mails')")
    session.execute("SELECT pgqueue_channel_purge('default', name) FROM pgqueue_channel")
    return broken + handlers_bring_leases(session) + leases_stay(session) + corrections_count(session)


def handlers_bring_leases(session: Session) -> Counter[str]:
    """Give a handler the limit while its messages run, and count what may run too many."""
    limit_set(session, "works", max_concurrency=2, per="channel", handlers=["other"])
    session.execute("SELECT pgqueue_enqueue('other', '{}', 'a')")
    first = [*dequeue(session), *dequeue(session)]
    settle(session, first)
    for _ in range(4):
        enqueue(session, "a")
    held = [*dequeue(session), *dequeue(session)]
    limit_set(session, "works", handlers=["other", "work"])
    more = [lease for _ in range(3) for lease in dequeue(session, 5)]
    limit_set(session, "works", handlers=["other"])
    left = [lease for _ in range(4) for lease in [*dequeue(session, 5), *(tick(session) or ())]]
    settle(session, [*held, *more, *left])
    session.execute("SELECT pgqueue_limit_drop('works')")
    return Counter({"a new handler brought no leases": len(more)}) if more else Counter()


def leases_stay(session: Session) -> Counter[str]:
    """Make one limit for all of one for each channel while messages run, and count what may run too many."""
    limit_set(session, "stays", max_concurrency=1, per="channel")
    for channel in ("a", "b"):
        for _ in range(2):
            enqueue(session, channel, limits=["stays"])
    held = [*dequeue(session), *dequeue(session)]
    limit_set(session, "stays", per=None)
    more = [lease for _ in range(4) for lease in [*dequeue(session, 5), *(tick(session) or ())]]
    settle(session, [*held, *more])
    session.execute("SELECT pgqueue_limit_drop('stays')")
    session.execute("SELECT pgqueue_channel_purge('default', name) FROM pgqueue_channel")
    return Counter({"another per brought no leases": len(more)}) if more else Counter()


def corrections_count(session: Session) -> Counter[str]:
    """Correct a cost, and count what the rate of the channel gives too many."""
    limit_set(session, "spends", release_interval="1 hour", release_burst=3, per="channel")
    for channel in ("a", "b"):
        for _ in range(3):
            enqueue(session, channel, limits=["spends"])
    [lease] = dequeue(session)
    session.execute("SELECT pgqueue_spend(%s, %s, 3)", [lease.id, lease.token])
    taken = [lease, *(more for _ in range(5) for more in [*dequeue(session, 5), *(tick(session) or ())])]
    found = Counter(each.channel for each in taken)
    settle(session, taken)
    session.execute("SELECT pgqueue_limit_drop('spends')")
    session.execute("SELECT pgqueue_channel_purge('default', name) FROM pgqueue_channel")
    other = "b" if lease.channel == "a" else "a"
    return Counter({"a correction was not paid": 1}) if found != {lease.channel: 1, other: 3} else Counter()


@pytest.fixture(autouse=True)
def channels(session: Session) -> None:
    for name in CHANNELS:
        make_channel(session, name)


@pytest.mark.parametrize("seed", range(3))
def test_a_limit_of_each_channel_keeps_its_rules_in_a_random_history(session: Session, seed: int) -> None:
    assert broken_rules(session, seed) == Counter()
    assert one(session, "SELECT count(*) FROM pgqueue_limit") == 0


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_a_defect_breaks_a_rule(business: Session, defect: Defect) -> None:
    """The defect is rolled back with the transaction of this session."""
    defect.install(business)
    assert any(broken_rules(business, seed) for seed in range(3))
