"""Atomic handlers that take a batch: one transaction for the writes and settlements of all its messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.sql import sql
from tests.support.waiting import eventually
from tests.worker.conftest import effects, mark, marks, script, scripts, where

Drain = Callable[..., dict[str, int]]


BATCH = "scripted.batch"


@pytest.mark.parametrize("statement", ["COMMIT", "ROLLBACK"])
def test_a_batch_that_ends_its_transaction_is_refused_as_a_whole(drain: Drain, statement: str) -> None:
    good = scripts(5, ["effect"], handler=BATCH)
    bad = script(["effect"], ["sql", statement], handler=BATCH)
    good += scripts(5, ["effect"], handler=BATCH)
    drain(concurrency=1)
    assert where(bad) == "dead: transaction_ended"
    assert {where(message) for message in good} <= {"completed", "dead: transaction_ended"}
    ran = [message for message, _ in effects()]
    assert len(ran) == len(set(ran)), "an effect that was committed is not repeated"


class TestBatch:
    def test_messages_of_a_batch_share_a_transaction(self, drain: Drain) -> None:
        scripts(40, ["effect"], handler=BATCH)
        assert drain(concurrency=1) == {"completed": 40}
        assert len(effects()) == 40
        calls = sql("SELECT count(*) FROM scripted_mark")[0][0]
        transactions = sql("SELECT count(DISTINCT xmin::text) FROM pgqueue_archived_message")[0][0]
        assert calls == transactions < 40

    def test_mixed_outcomes_commit_together(self, drain: Drain) -> None:
        done, refused = scripts(10, ["effect"], handler=BATCH), script(["effect"], ["dead_letter", "no"], handler=BATCH)
        later = script(["effect"], ["defer", 3600], handler=BATCH)
        assert drain(concurrency=1) == {"completed": 10, "deferred": 1, "dead_lettered": 1}
        assert sorted(message for message, _ in effects()) == sorted([*done, refused, later])

    def test_one_bad_message_does_not_fail_the_others(self, drain: Drain) -> None:
        good = scripts(10, ["effect"], handler=BATCH)
        bad = script(["effect"], ["fail", "bad"], handler=BATCH, max_attempts=1)
        good += scripts(10, ["effect"], handler=BATCH)
        assert drain(concurrency=1) == {"completed": 20, "dead_lettered": 1}
        assert sorted(message for message, _ in effects()) == good
        assert where(bad) == "dead: failed"

    def test_a_returned_retry_takes_only_its_own_effects_back(self, drain: Drain) -> None:
        good, again = scripts(10, ["effect"], handler=BATCH), script(["effect"], ["retry", 3600], handler=BATCH)
        assert drain(concurrency=1) == {"completed": 10, "retried": 1}
        assert sorted(message for message, _ in effects()) == good
        assert where(again) == "live: scheduled"

    def test_a_lost_lease_in_a_batch_takes_only_its_own_effects_back(self, start: Callable[..., Any]) -> None:
        # The first call warms the pace up, so that the next one is a batch.
        lost = script(["mark", "running"], ["await", "go"], ["effect"], handler=BATCH, channel="default")
        worker = start(once=True, batch=10, concurrency=1)
        eventually(lambda: marks("running"))
        assert lost
        sql("UPDATE pgqueue_message SET lease_token = gen_random_uuid() WHERE id = %s", lost)
        mark("go")
        worker.join()
        assert effects() == []
        assert worker.ledger.totals()["lease_lost"] == 1

    def test_a_batch_without_one_of_its_leases_completes_the_rest(self, start: Callable[..., Any]) -> None:
        messages = scripts(5, ["effect"], handler=BATCH)
        messages.append(script(["mark", "running"], ["await", "go"], ["effect"], handler=BATCH))
        worker = start(once=True, batch=10, concurrency=1)
        eventually(lambda: marks("running"))
        sql("UPDATE pgqueue_message SET lease_token = gen_random_uuid() WHERE id = %s", messages[2])
        mark("go")
        worker.join()
        assert sorted(message for message, _ in effects()) == messages[:2] + messages[3:]
        assert worker.ledger.totals()["lease_lost"] == 1
        assert where(messages[2]) == "live: leased"
