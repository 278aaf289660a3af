"""Canaries: a password of the database, a payload and a local variable, looked for wherever the queue writes.

tests/test_redaction.py tests how known secrets are hidden in all kinds of texts; this file tests a whole worker.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from django.test import Client
from django.urls import reverse

from django_pgqueue.spark.export.job import export
from django_pgqueue.spark.lake import Lake
from django_pgqueue.spark.source import Source
from tests.support.sql import sql
from tests.support.waiting import eventually
from tests.worker.conftest import Process, queue, script, spawn, where  # noqa: F401  (fixtures)

PASSWORD = "canary-of-the-database-9d21"
PAYLOAD = "canary-of-the-payload-4b7e"
HANDLERS = ["scripted", "scripted.async"]
PAYLOADS = re.compile(r'<td class="field-payload_listed[^>]*>.*?</td>', re.S)
LETTERS = "SELECT coalesce(d.errors::text, '') || coalesce(d.details::text, '') FROM pgqueue_dead_letter AS d"
WORKERS = "SELECT string_agg(w::text, ' ') FROM pgqueue_worker AS w"
SESSIONS = "SELECT string_agg(concat(s.application_name, s.usename, s.client_hostname), ' ') FROM pg_stat_activity AS s"


def family(pid: int) -> Iterator[int]:
    yield pid
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield from family(int(child))


@pytest.fixture
def failed(spawn: Callable[..., Process], environment: dict[str, str]) -> dict[str, str]:  # noqa: F811
    """The loudest output of a worker, whose handlers have failed with secrets in their variables and errors."""
    messages = [
        script(*steps, handler=handler, max_attempts=1)
        for handler in HANDLERS
        for steps in (
            [["fail", f"no route to postgresql://bob:{PASSWORD}@db/shop"]],
            [["fail", f"the server does not take {PASSWORD}"]],
            [["sleep", PAYLOAD]],  # fails, with the payload in a local variable
            [["object"], [PAYLOAD]],
        )
    ]
    running = script(["until cancelled"], ["fail", PAYLOAD])
    address = f"{environment['DATABASE_URL']}&password={PASSWORD}"
    worker = spawn("--verbosity", "3", "--concurrency", "2", processes=1, DATABASE_URL=address)
    eventually(lambda: all(where(message).startswith("dead") for message in messages), seconds=280)
    eventually(lambda: where(running) == "live: leased", seconds=280)
    seen = {
        "processes": "".join(Path(f"/proc/{pid}/cmdline").read_text() for pid in family(worker.popen.pid)),
        "workers": eventually(lambda: sql(WORKERS)[0][0]),
        "sessions": sql(SESSIONS)[0][0],
    }
    sql("SELECT outcome FROM pgqueue_cancel(ARRAY[%s::bigint])", running)
    eventually(lambda: where(running) == "cancelled", seconds=280)
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0
    return seen | {"log": worker.log, "errors": "".join(text for (text,) in sql(LETTERS))}


@pytest.mark.timeout(300)
def test_secrets_are_nowhere_and_a_payload_is_shown_as_the_payload_alone(
    failed: dict[str, str], admin_client: Client, pg_url: str, tmp_path: Path
) -> None:
    assert "no route to postgresql://bob:********@db" in failed["log"]
    assert "the server does not take ********" in failed["errors"]
    assert "runqueueworker" in failed["processes"]
    for place, text in failed.items():
        assert PASSWORD not in text, place
        assert PAYLOAD not in text, place
    look_at_pages(admin_client)
    look_at_a_lake(tmp_path / "lake", f"{pg_url}&password={PASSWORD}")


def look_at_pages(client: Client) -> None:
    for model in ("message", "deadletter", "archivedmessage", "worker"):
        page = client.get(reverse(f"admin:pgqueue_{model}_changelist")).content.decode()
        # The column of payloads shows both, because the test put them there.
        page = PAYLOADS.sub("", page)
        assert PAYLOAD not in page
        assert PASSWORD not in page
    [(letter,)] = sql("SELECT min(id) FROM pgqueue_dead_letter WHERE payload::text LIKE %s", f"%sleep%{PAYLOAD}%")
    page = client.get(reverse("admin:pgqueue_deadletter_change", args=[letter])).content.decode()
    assert page.count(PAYLOAD) == 1, "where its payload is shown"


def look_at_a_lake(lake: Path, address: str) -> None:
    export(Source.parse(address), lake)
    rows = [row for path in Lake.open(lake).paths("dead_letter") for row in pq.read_table(path).to_pylist()]
    assert len(rows) == 4 * len(HANDLERS)
    for row in rows:
        payload = row.pop("payload")
        assert PAYLOAD not in str(row)
        assert PAYLOAD in payload or "fail" in payload
        assert PASSWORD not in str(row)
    for path in lake.rglob("*"):
        assert PASSWORD not in str(path)
        # The rows of the messages have been looked at: here, too, it is in payloads, because the test put it there.
        if path.is_file() and path.suffix != ".parquet":
            assert PASSWORD.encode() not in path.read_bytes()
