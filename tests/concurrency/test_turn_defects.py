"""The turns of a full shared limit, checked in a history; a defect of each guard is noticed."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.support.sessions import Session, one
from tests.support.verbs import dequeue, enqueue, limit_set, make_channel, send, settle, tick
from verification.chaos.sabotage.defects import Defect
from verification.chaos.sabotage.turns import DEFECTS

PLACES = 2
STEPS = 84
WEIGHTS = {"a": 1, "b": 2, "c": 3, "new": 1}
READY = "SELECT count(*) FROM pgqueue_message WHERE promoted_for IS NOT NULL AND status = 1"


def broken_rules(session: Session) -> Counter[str]:
    """Serve a limit whose places get free one by one, and count how often each rule was broken.

    Channels a, b and c wait for it. Channel new gets a message in each step, which does not wait yet: it has the limit
    by its handler.
    """
    broken, served = Counter[str](), Counter[str]()
    for name, weight in WEIGHTS.items():
        make_channel(session, name, weight=weight)
    limit_set(session, "stripe", max_concurrency=PLACES, handlers=["work"])
    for name in "abc":
        send(session, name, STEPS)
    held = [lease for _ in range(PLACES) for lease in dequeue(session)]
    for _ in range(STEPS):
        settle(session, [held.pop(0)])
        enqueue(session, "new")
        tick(session, 3)
        if one(session, READY) > 1:
            broken["more were made ready than the limit has places"] += 1
        taken = dequeue(session)
        held += taken
        served.update(lease.channel for lease in taken)
        if not taken:
            broken["the free place is not used"] += 1
            held += dequeue(session)
    for name, weight in WEIGHTS.items():
        if abs(served[name] - STEPS * weight / sum(WEIGHTS.values())) > 4:
            broken[f"channel {name} got {served[name]} of {STEPS} places"] += 1
    return broken


def test_the_turns_of_a_full_limit_keep_their_rules(session: Session) -> None:
    assert broken_rules(session) == Counter()


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_a_defect_breaks_a_rule(business: Session, defect: Defect) -> None:
    """The defect is rolled back with the transaction of this session."""
    defect.install(business)
    assert broken_rules(business)
