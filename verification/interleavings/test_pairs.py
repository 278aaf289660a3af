"""Every ordered pair of calls: whether the second waits is what the documentation says of it."""

from __future__ import annotations

import pytest

from verification.chaos.sabotage.defects import Defect
from verification.model_based.sabotage import installed

from .stage import ELSE, FREE, Stage
from .table import BLOCKS, CROSSED, Block, crossed, written
from .verbs import ABSENT, LEASED, VERBS, Verb

PRODUCERS = [verb for verb in VERBS if verb.needs == ABSENT]
VERB = {verb.name: verb for verb in VERBS}
HEARTBEAT = VERB["heartbeat"]
SKIPS = "FOR UPDATE SKIP LOCKED"
# A function, a guard of it, what stands there instead, and the pair whose second call then waits.
WAITING = [
    (
        "enqueue",
        "c.name = p_channel AND c.released_at IS NULL;",
        "c.name = p_channel FOR UPDATE;",
        ("enqueue", "enqueue", "same channel"),
    ),
    ("lock_unleased", SKIPS, "FOR UPDATE", ("dequeue", "channel_purge", "same message")),
    ("reclaim", f"{SKIPS}\n        ) AS m", "FOR UPDATE) AS m", ("complete", "sweep", "same message")),
    ("reclaim", f"{SKIPS}\n        ) AS m", "FOR UPDATE) AS m", ("complete", "dequeue of expired", "same message")),
]
SETTLING = [verb for verb in VERBS if "%(token)s" in verb.sql or verb.name == "cancel"]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.heading)
def test_the_second_waits_where_the_documentation_says_so(stage: Stage, block: Block) -> None:
    assert block.lines(block.ask(stage)) == written(block.heading)


@pytest.mark.timeout(600)
def test_transactions_in_opposite_order_end_as_the_documentation_says(stage: Stage) -> None:
    assert crossed(stage) == written(CROSSED)


@pytest.mark.parametrize("other", VERBS, ids=lambda verb: verb.name)
def test_no_call_waits_for_an_open_producer(stage: Stage, other: Verb) -> None:
    for one in PRODUCERS:
        for relation in ("same channel", "other channel"):
            assert stage.answer(one, other, relation) == FREE


@pytest.mark.parametrize("other", VERBS, ids=lambda verb: verb.name)
def test_no_call_waits_for_a_client_that_waits_for_its_message(stage: Stage, other: Verb) -> None:
    assert stage.answer(VERB["enqueue_after"], other, "same message") == FREE


@pytest.mark.parametrize(("function", "guard", "instead", "pair"), WAITING, ids=[" ".join(w[3][:2]) for w in WAITING])
def test_a_lock_that_waits_is_seen(
    stage: Stage, function: str, guard: str, instead: str, pair: tuple[str, str, str]
) -> None:
    one, other, relation = pair
    assert stage.answer(VERB[one], VERB[other], relation) in (FREE, ELSE)
    with installed(stage.queue.session, Defect("waits", function, guard, instead, frozenset())):
        assert stage.answer(VERB[one], VERB[other], relation).startswith("waits")


@pytest.mark.parametrize("verb", SETTLING, ids=lambda verb: verb.name)
def test_a_call_for_two_messages_takes_the_lower_id_first(stage: Stage, verb: Verb) -> None:
    """The order in which they are named does not matter: while it waits for the lower, the higher is free."""
    low, high = stage.arrange(verb, verb, "other channel")
    assert verb.needs == LEASED
    assert low.id < high.id
    both = Verb(verb.name, verb.sql.replace("%(id)s::bigint", f"{high.id}, {low.id}::bigint"))
    both = Verb(both.name, both.sql.replace("%(token)s", f"'{high.token}', '{low.token}'"))
    for each in ("'{}'", "'refused'"):  # an error, or a reason, for each of the two
        both = Verb(both.name, both.sql.replace(f"ARRAY[{each}]", f"ARRAY[{each}, {each}]"))
    with stage.opened(stage.first, HEARTBEAT, low):
        call = stage.pool.submit(stage.alone, both, low)
        assert stage.waits(call, stage.second)
        beside = stage.queue.settle("heartbeat", [(high.id, high.token)])
        assert beside == [(high.id, False)]
    assert call.result() == (3 if verb.name == "cancel" else 2)
