"""The purpose of each kind of role, in a session that has logged in as it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest

from django_pgqueue.spark.errors import PipelineError
from django_pgqueue.spark.export.job import export
from django_pgqueue.spark.source import Source
from tests.security.conftest import PASSWORD
from tests.support.paths import REPOSITORY
from tests.support.sessions import Session, one
from tests.support.waiting import eventually

Login = Callable[..., Session]
REFUSED = psycopg.errors.InsufficientPrivilege
INSERT = (
    "INSERT INTO pgqueue_message (channel_id, handler, payload)"
    " SELECT id, 'mail.send', '{\"n\": 1}' FROM pgqueue_channel WHERE queue = 'default' AND name = %s RETURNING id"
)


def test_a_producer_enqueues_in_every_way(empty: Session, login: Login) -> None:
    """The trigger reads and writes tables that the producer may not: it runs with the rights of its owner."""
    producer = login("producer")
    empty.execute("SELECT pgqueue_channel_set('default', 'small', '{\"max_size\": 2}')")
    empty.execute("UPDATE pgqueue_queue SET events = true")
    one(producer, "SELECT id FROM pgqueue_enqueue('mail.send')")
    one(producer, "SELECT id FROM pgqueue_enqueue('mail.send', p_delay => '1 hour', p_dedupe_key => 'once')")
    producer.execute("SELECT id FROM pgqueue_enqueue_many(ARRAY['a', 'b'], ARRAY['{}', '{}']::jsonb[])")
    assert one(producer, INSERT, "default") > 0
    assert one(producer, INSERT, "small") > 0
    channel = one(producer, "SELECT id FROM pgqueue_channel WHERE name = 'default'")
    with (
        producer.cursor() as cursor,
        cursor.copy("COPY pgqueue_message (channel_id, handler, dequeue_at) FROM STDIN") as copy,
    ):
        copy.write_row([channel, "mail.send", "2000-01-01"])
        copy.write_row([channel, "mail.send", "2100-01-01"])
    counted = empty.execute("SELECT status, count(*) FROM pgqueue_message GROUP BY status ORDER BY status").fetchall()
    assert counted == [(1, 6), (3, 2)]
    producer.execute(INSERT, ["small"])
    with pytest.raises(psycopg.Error) as full:
        producer.execute(INSERT, ["small"])
    assert full.value.sqlstate == "PGQ04"


def test_a_whole_worker_runs_as_a_role_that_owns_nothing(
    empty: Session, login: Login, roles: dict[str, str], environment: dict[str, str]
) -> None:
    """With its supervisor, its listener and its maintenance, which makes and drops partitions."""
    partition = "pgqueue_archived_message_20200101"
    bounds = "FROM ('2020-01-01') TO ('2020-01-02')"
    empty.execute(f"CREATE TABLE {partition} PARTITION OF pgqueue_archived_message FOR VALUES {bounds}")
    # The partition of the last day that a prune makes: by its date, as another test may have made later ones.
    last = f"pgqueue_archived_message_{datetime.now(UTC).date() + timedelta(days=7):%Y%m%d}"
    empty.execute(f"DROP TABLE IF EXISTS {last}")
    empty.execute("SELECT pgqueue_enqueue('security.echo', '{}') FROM generate_series(1, 20)")
    worker = subprocess.Popen(
        [sys.executable, "-m", "django", "runqueueworker", "--processes", "1", "--no-reload"],
        env={
            **environment,
            "DATABASE_URL": as_role(environment["DATABASE_URL"], roles["worker"]),
            "DJANGO_SETTINGS_MODULE": "tests.security.settings",
            "PYTHONPATH": os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "testproject")]),
        },
        cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    sessions = "SELECT count(*) FROM pg_stat_activity WHERE usename = %s"
    try:
        eventually(lambda: one(empty, sessions, roles["worker"]) >= 2)
        eventually(lambda: one(empty, "SELECT count(*) FROM pgqueue_archived_message") == 20)
        eventually(lambda: one(empty, "SELECT to_regclass(%s)", last) is not None)
        eventually(lambda: one(empty, "SELECT to_regclass(%s)", partition) is None)
    finally:
        worker.terminate()
        log, _ = worker.communicate(timeout=280)
        print(log)  # shown when something above did not happen
    assert worker.returncode == 0, log
    assert "permission denied" not in log
    assert one(empty, "SELECT count(*) FROM pgqueue_worker") == 0, "it took its row away"


def test_the_check_names_the_rights_that_its_own_role_lacks(
    empty: Session, roles: dict[str, str], environment: dict[str, str]
) -> None:
    signature = one(empty, "SELECT oid::regprocedure::text FROM pg_proc WHERE proname = 'pgqueue_complete'")
    worker = roles["worker"]
    try:
        assert "pgqueue.W023" not in checked(environment, worker)
        empty.execute(f"REVOKE EXECUTE ON FUNCTION {signature} FROM {worker}")
        told = checked(environment, worker)
    finally:
        empty.execute(f"GRANT EXECUTE ON FUNCTION {signature} TO {worker}")
    assert "lacks 1 right(s) of a worker: EXECUTE on pgqueue_complete" in told
    assert f"manage.py pgqueue grant worker {worker}" in told


def checked(environment: dict[str, str], role: str) -> str:
    """Return what `manage.py check --database default` says to this role."""
    done = subprocess.run(
        [sys.executable, "-m", "django", "check", "--database", "default"],
        env={
            **environment,
            "DATABASE_URL": as_role(environment["DATABASE_URL"], role),
            "PYTHONPATH": os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "testproject")]),
        },
        cwd=REPOSITORY, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout + done.stderr


def as_role(url: str, role: str) -> str:
    return f"{url}&user={role}&password={PASSWORD}"


def test_the_pipeline_copies_and_reports(empty: Session, login: Login) -> None:
    pipeline = login("pipeline")
    with pipeline.transaction():
        stage = one(pipeline, "SELECT pgqueue_ingest_open('november', 0, '{\"handler\": \"mail.send\"}')")
        with pipeline.cursor() as cursor, cursor.copy(f"COPY pgqueue_stage_{stage} (payload) FROM STDIN") as copy:
            copy.write_row(['{"n": 1}'])
    answer = pipeline.execute(
        "SELECT ingested, created FROM pgqueue_ingest('november', 0, %s, 1)", [[stage]]
    ).fetchone()
    assert answer == (True, 1)
    assert one(pipeline, "SELECT pgqueue_ingest_clean('november')") == 1
    assert one(pipeline, "SELECT pgqueue_lake_exported('lake', '/lake', 7, '{}')") is True
    pipeline.execute("DELETE FROM pgqueue_lake WHERE name = 'other'")
    with pytest.raises(REFUSED):
        pipeline.execute("UPDATE pgqueue_lake SET exported_xid = 1")
    with pytest.raises(REFUSED):
        pipeline.execute("SELECT id FROM pgqueue_dequeue()")


def test_the_pipeline_exports_without_a_warning(
    empty: Session, login: Login, roles: dict[str, str], pg_url: str, tmp_path: Path
) -> None:
    empty.execute("SELECT pgqueue_enqueue('mail.send') FROM generate_series(1, 3)")
    empty.execute("SELECT id FROM pgqueue_pop('default', 3)")
    summary = export(Source.parse(as_role(pg_url, roles["pipeline"])), tmp_path / "lake")
    assert (summary.rows["archive"], summary.warning) == (3, "")
    with pytest.raises(PipelineError, match="pgqueue grant pipeline"):
        export(Source.parse(as_role(pg_url, roles["worker"])), tmp_path / "other")


def test_a_role_that_may_read_the_archive_may_read_the_partitions_that_are_made_later(
    empty: Session, login: Login
) -> None:
    day = datetime.now(UTC).date() + timedelta(days=9)
    name = f"pgqueue_archived_message_{day:%Y%m%d}"
    empty.execute("SELECT pgqueue_make_partitions(9)")
    try:
        assert one(login("reader"), f"SELECT count(*) FROM {name}") == 0
        assert one(login("pipeline"), f"SELECT count(*) FROM {name}") == 0
        with pytest.raises(REFUSED):
            login("worker").execute(f"SELECT count(*) FROM {name}")
    finally:
        for later in (8, 9):
            empty.execute(f"DROP TABLE pgqueue_archived_message_{day - timedelta(days=9 - later):%Y%m%d}")
