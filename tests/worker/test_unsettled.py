"""Processes that die between the end of a handler and the settlement of its message: the attempt counts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from django_pgqueue.models import DeadLetter, Message
from tests.support.sql import sql
from tests.support.waiting import eventually
from tests.worker.conftest import effects, script, scripts, where
from tests.worker.test_supervisor import Spawn

# The outcome of the culprit cannot be written down, again and again, as if the server were busy.
REFUSE = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN RAISE EXCEPTION ''not now'' USING ERRCODE = ''query_canceled''; END';
CREATE TRIGGER refuse BEFORE INSERT ON pgqueue_archived_message FOR EACH ROW
    WHEN (NEW.payload::text LIKE '%kill later%') EXECUTE FUNCTION refuse()
"""
DIES = [["effect"], ["kill later", 0.5]]


@pytest.fixture
def unsettled(queue: None) -> Iterator[None]:
    sql(REFUSE)
    yield
    sql("DROP FUNCTION refuse CASCADE")


@pytest.mark.usefixtures("unsettled")
@pytest.mark.parametrize("handler", ["scripted", "scripted.async", "scripted.batch.plain"])
def test_a_handler_that_returns_and_kills_its_process_becomes_poison(spawn: Spawn, handler: str) -> None:
    culprit = script(*DIES, handler=handler, max_attempts=2)
    spawn("--lease", "600", processes=1)
    eventually(lambda: not Message.objects.exists(), seconds=60)
    assert where(culprit) == "dead: poison"
    assert effects() == [(culprit, 1), (culprit, 2)]
    errors = DeadLetter.objects.get(id=culprit).errors
    assert [error["type"] for error in errors] == ["WorkerDied"] * 2
    assert "before its outcome was written down" in errors[0]["message"]


@pytest.mark.usefixtures("unsettled")
@pytest.mark.parametrize("handler", ["scripted", "scripted.async"])
def test_its_neighbours_are_not_dead_lettered_in_its_place(spawn: Spawn, handler: str) -> None:
    neighbours = scripts(3, ["effect"], ["sleep", 2], handler=handler, max_attempts=2)
    culprit = script(*DIES, handler=handler, max_attempts=2)
    neighbours += scripts(3, ["effect"], ["sleep", 2], handler=handler, max_attempts=2)
    spawn("--lease", "600", "--concurrency", "7", processes=1)
    eventually(lambda: not Message.objects.exists(), seconds=90)
    assert where(culprit) == "dead: poison"
    assert {where(message) for message in neighbours} == {"completed"}
