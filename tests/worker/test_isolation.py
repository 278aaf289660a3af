"""A worker on a database whose transactions have another isolation level by default."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator

import pytest
from django.db import connection

from django_pgqueue import dequeue, enqueue
from django_pgqueue.exceptions import InvalidMessage
from tests.support.sql import sql
from tests.support.waiting import eventually
from tests.worker.conftest import Process, effects, script, where
from tests.worker.pooler import transaction_pooler

TICKED = "SELECT max(ticked_at) > %s FROM pgqueue_floor"


@pytest.fixture(params=["serializable", "repeatable read"])
def level(request: pytest.FixtureRequest, queue: None) -> Iterator[str]:
    """Another default of the database, for all sessions that begin from now on."""
    name = connection.settings_dict["NAME"]
    sql(f"ALTER DATABASE {name} SET default_transaction_isolation = '{request.param}'")
    connection.close()
    yield request.param
    sql(f"ALTER DATABASE {name} RESET default_transaction_isolation")
    connection.close()


@pytest.mark.parametrize("processes", [0, 1])
def test_a_worker_serves_it(spawn: Callable[..., Process], level: str, processes: int) -> None:
    assert sql("SHOW default_transaction_isolation") == [(level,)]
    [(before,)] = sql("SELECT clock_timestamp()")
    kinds = ("scripted", "scripted.atomic", "scripted.batch")
    messages = [script(["effect"], handler=kind) for kind in kinds]
    messages += [script(["first", ["fail", "once"]], handler=kind) for kind in kinds]
    process = spawn(processes=processes)
    eventually(lambda: all(where(message) == "completed" for message in messages), problem="it is not served")
    assert sorted(effects()) == [(message, 1) for message in sorted(messages[:3])]
    eventually(lambda: sql(TICKED, before)[0][0], problem="maintenance does not tick")
    assert "Traceback" not in process.log


def test_other_sessions_learn_which_setting_they_need(level: str) -> None:
    enqueue("h")
    with pytest.raises(InvalidMessage, match="needs READ COMMITTED") as raised:
        dequeue()
    assert "ALTER ROLE" in raised.value.hint


def test_a_worker_behind_a_pooler_says_what_to_set(spawn: Callable[..., Process], level: str, pg_url: str) -> None:
    message = script(["effect"])
    with transaction_pooler(pg_url) as url:
        process = spawn(DATABASE_URL=url)
        eventually(lambda: "ALTER ROLE" in process.log, problem="it does not say it")
        process.signal(signal.SIGKILL)
        process.wait()
    assert where(message) == "live: ready"
