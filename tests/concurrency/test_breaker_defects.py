"""The rule of a breaker, checked in a random history; a defect of each guard is noticed."""

from __future__ import annotations

import json
from collections import Counter
from random import Random

import pytest

from tests.support.sessions import Session, column, one
from tests.support.verbs import dequeue, enqueue, make_channel, retry, settle
from verification.chaos.sabotage.breakers import DEFECTS
from verification.chaos.sabotage.defects import Defect

STEPS = 60
CHANNELS = ("a", "b")
LEASED = "SELECT id FROM pgqueue_message WHERE status = 2"


def broken_rules(session: Session, seed: int) -> Counter[str]:
    """Play a random history of one breaker, and count how often each rule was broken.

    One session plays it, so the rules are exact: while it is open, and its pause lasts, nothing is leased; after the
    pause, exactly one message; while it is closed, some. Failures of each kind count.
    """
    chance, broken = Random(seed), Counter[str]()
    settings = {"failures": 3, "within": "1 hour", "pause": "1 hour"}
    session.execute("SELECT pgqueue_breaker_set('work', %s)", [json.dumps(settings)])
    failures, is_open, may_try, tried = 0, False, False, False
    for _ in range(STEPS):
        for channel in CHANNELS:
            enqueue(session, channel, max_attempts=1000, backoff="1 hour")
        if is_open and not may_try and chance.random() < 0.5:
            session.execute("""UPDATE pgqueue_limit SET opened_at = opened_at - interval '2 hours',
                closed_at = closed_at - interval '2 hours',
                open_until = open_until - interval '2 hours'""")
            session.execute("UPDATE pgqueue_breaker_outcome SET ended_at = ended_at - interval '2 hours'")
            may_try = True
        lives = chance.random() < 0.7
        taken = dequeue(session, 2, lease="1 minute" if lives else "1 ms")
        most = (1 if may_try else 0) if is_open else 2
        if len(taken) > most:
            broken["leased too many"] += 1
        if is_open and may_try and not taken:
            broken["none tried"] += 1
        if not is_open and not taken:
            broken["closed, and none leased"] += 1
        tried = bool(taken) and is_open
        if tried and dequeue(session, 2):
            broken["two tries"] += 1
        if not lives:
            session.execute("SELECT pg_sleep(0.002)")
            session.execute("SELECT pgqueue_reclaim(100)")
            failed = [True] * len(taken)
        else:
            failed = [chance.random() < 0.7 for _ in taken]
            for lease, fails in zip(taken, failed, strict=True):
                if fails:
                    retry(session, [lease], delay="1 hour")
                else:
                    settle(session, [lease])
        if is_open and tried:
            is_open, may_try, failures = failed[0], False, 0
        elif not is_open:
            # The order of outcomes in one statement of the sweep does not matter: all of them are failures.
            for fails in failed:
                failures = failures + 1 if fails else 0
                # It opens with the failure. A message that ends later does not count.
                is_open = is_open or failures >= 3
    return broken


@pytest.fixture(autouse=True)
def channels(session: Session) -> None:
    for name in CHANNELS:
        make_channel(session, name)


@pytest.mark.parametrize("seed", range(3))
def test_a_breaker_keeps_its_rules_in_a_random_history(session: Session, seed: int) -> None:
    assert broken_rules(session, seed) == Counter()
    assert one(session, "SELECT count(*) FROM pgqueue_breaker_outcome WHERE tried") > 0
    assert column(session, LEASED) == []


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_a_defect_breaks_a_rule(business: Session, defect: Defect) -> None:
    """The defect is rolled back with the transaction of this session."""
    defect.install(business)
    assert any(broken_rules(business, seed) for seed in range(2))
