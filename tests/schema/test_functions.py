"""Files, migrations and database hold the same functions; and the files keep the house style."""

from __future__ import annotations

import re

import pytest
from django.db import connection
from django.db.migrations.loader import MigrationLoader

from django_pgqueue.sql import files, roles
from django_pgqueue.sql.operations import InstallFunction, install
from tests.schema.sql_files import FILES, LATEST, header_in_one_line, uncommented


def installed(app: str) -> dict[str, int]:
    """Return the functions that the migrations of the app install in the end, with their versions."""
    loader = MigrationLoader(None, ignore_no_migrations=True)
    versions: dict[str, int] = {}
    plan = loader.graph.forwards_plan(loader.graph.leaf_nodes(app)[0])
    for node in plan:
        if node[0] == app:
            for operation in loader.disk_migrations[node].operations:
                if isinstance(operation, InstallFunction):
                    assert operation.version == versions.get(operation.name, 0) + 1, operation.name
                    versions[operation.name] = operation.version
    return versions


@pytest.mark.parametrize("app", files.FOLDERS)
def test_the_migrations_install_every_newest_file(app: str) -> None:
    assert installed(app) == files.latest_functions([app])


GUARDED = re.compile(r"(?:IF|AND) to_regproc\('(\w+)'\) IS NOT NULL THEN\s+(?:PERFORM|\w+ :=) \1\(")


# The functions of another app that those of the queue ask, and what goes without a guard: a flow is there.
ASKED = {
    files.PIPELINE: (
        roles.PIPELINE_TABLES, "(?!)",
        {"pgqueue_erase_pipeline", "pgqueue_exported_xid", "pgqueue_is_exported", "pgqueue_record_lost"},
    ),
    files.FLOW: (
        roles.FLOW_TABLES, r"flows? IS NOT NULL THEN PERFORM pgqueue_flow_settled\(",
        {"pgqueue_after_explain", "pgqueue_batch_sweep", "pgqueue_batch_prune", "pgqueue_batch_erase"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("app", ASKED)
def test_the_queue_asks_another_app_only_where_it_is_installed(app: str) -> None:
    """By functions that are there, never by tables: a caller could put a table of that name into pg_temp."""
    tables, unguarded, expected = ASKED[app]
    theirs = set(files.latest_functions([app])) | {f"pgqueue_{table}" for table in tables}
    asked = set()
    for path in files.file_paths("functions", [files.QUEUE]):
        code = " ".join(uncommented(path.read_text(encoding="utf-8")).split())
        asked |= set(GUARDED.findall(code)) & theirs
        code = re.sub(unguarded, "", GUARDED.sub("", code))
        assert not set(re.findall(r"\bpgqueue_\w+", code)) & theirs, path.name
    assert asked == expected


def test_versions_have_no_gaps() -> None:
    for name, newest in LATEST.items():
        names = [path.name for path in FILES if path.name.startswith(f"{name}_v")]
        assert names == [f"{name}_v{version:02}.sql" for version in range(1, newest + 1)]


@pytest.mark.django_db
def test_the_database_runs_what_the_files_say() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT proname, prosrc FROM pg_proc WHERE proname LIKE 'pgqueue%'")
        rows = cursor.fetchall()
    found = dict(rows)
    assert len(found) == len(rows), "a function is there with two signatures"
    assert sorted(found) == sorted(LATEST)
    for name, version in LATEST.items():
        assert found[name] == files.function_body(name, version), name


@pytest.mark.django_db
def test_the_database_has_the_signatures_of_the_files() -> None:
    """The body alone is not enough: parameters, their defaults, and settings for the planner."""
    with connection.cursor() as cursor:
        for name, version in LATEST.items():
            cursor.execute("SELECT proargnames, proargmodes::text[], proconfig FROM pg_proc WHERE proname = %s", [name])
            names, modes, config = cursor.fetchone()
            text = files.read_file("functions", name, version)
            declaration = text[: text.index("AS $$")]
            given = [n for n, mode in zip(names or [], modes or ["i"] * len(names or []), strict=True) if mode == "i"]
            assert given == re.findall(r"\b(p_\w+)\b(?= )", uncommented(declaration)), name
            pinned = [f"{key}={value}" for key, value in re.findall(r"^SET (\w+) = (\w+)$", declaration, re.MULTILINE)]
            if files.is_definer(name, version):
                pinned.append("search_path=public, pg_temp")
            assert sorted(config or []) == sorted(pinned), name


def test_locks_are_taken_as_the_lock_order_says() -> None:
    """All is SKIP LOCKED or try-lock, but for a max_size channel, the end of a batch, events, and edits of limits."""
    for path in FILES:
        code = " ".join(uncommented(path.read_text(encoding="utf-8")).split())
        waiting = re.findall(r"FOR (?:NO KEY )?UPDATE(?! (?:OF \w+ )?SKIP LOCKED)", code)
        waits = path.stem.startswith(("pgqueue_lock_size_v", "pgqueue_batch_look_v"))
        assert waiting == (["FOR UPDATE"] if waits else []), path.name
        advisory = (
            ["pg_advisory_xact_lock"]
            if path.stem.startswith(
                (
                    "pgqueue_batch_look_v",
                    "pgqueue_batch_passes_v",
                    "pgqueue_limit_set_v",
                    "pgqueue_limit_pause_v",
                    "pgqueue_limit_drop_v",
                    "pgqueue_notify_event_v",
                )
            )
            else []
        )
        assert re.findall(r"pg_advisory_xact_lock|pg_advisory_lock|LOCK TABLE", code) == advisory, path.name


def test_no_function_sleeps() -> None:
    """It would hold its locks, its snapshot and a transaction id meanwhile: callers wait, outside of a transaction.

    One procedure waits for them. It commits before each sleep, which is short: tests/concurrency/test_dequeue_wait.py.
    Two functions ask ten times, a millisecond apart, for what other dequeues hold until they commit.
    """
    for path in FILES:
        code = uncommented(path.read_text(encoding="utf-8"))
        if path.stem.startswith("pgqueue_dequeue_wait_v"):
            assert code.count("pg_sleep") == 1
            assert re.search(r"\n        COMMIT;\n(?!.*pgqueue_).*pg_sleep", code, re.DOTALL)
            assert not re.search(r"^(SECURITY DEFINER|SET )", code, re.MULTILINE), "it could not commit"
        elif path.stem.startswith(("pgqueue_hold_limit_v", "pgqueue_lock_gate_v")):
            assert code.count("pg_sleep") == code.count("PERFORM pg_sleep(0.001)") == 1, path.name
            assert re.search(r"IN 1..(CASE WHEN p_patient THEN )?10 ", code), path.name
        else:
            assert "pg_sleep" not in code, path.name


def test_a_function_that_waits_for_messages_takes_them_in_the_order_of_ids() -> None:
    """A bitmap scan would lock them in the order of their places in the table: two callers would wait in a circle."""
    waiting = [path for path in FILES if "(lock order, step 2)" in header_in_one_line(path.read_text("utf-8"))]
    assert len(waiting) == 8
    for path in waiting:
        assert "\nSET enable_bitmapscan = off\n" in path.read_text(encoding="utf-8"), path.name


CHURNED = ["announce", "archive", "record_departures", "dequeue", "message_arrived", "sweep", "tick"]


def test_a_look_at_what_churns_does_not_read_all_that_matches() -> None:
    """A bitmap scan would, where a LIMIT asks for the first: statistics of few living rows lead to it."""
    for name in CHURNED:
        text = files.read_file("functions", f"pgqueue_{name}", LATEST[f"pgqueue_{name}"])
        assert "\nSET enable_bitmapscan = off\n" in text, name


def test_the_clock_is_never_the_transactions_start() -> None:
    """now() is minutes old in a long transaction. Partitions are named by day, there it is fine."""
    for path in FILES:
        if path.stem.split("_v")[0] not in {"pgqueue_make_partitions", "pgqueue_prune"}:
            code = uncommented(path.read_text(encoding="utf-8"))
            assert not re.search(r"\bnow\(\)|current_timestamp|transaction_timestamp", code, re.IGNORECASE), path.name


OIDS = "SELECT oid, prosrc, proacl FROM pg_proc WHERE proname = %s"


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["pgqueue_wake", "pgqueue_dequeue_wait"])
def test_a_function_that_is_installed_again_stays_the_same_for_calls_under_way(name: str) -> None:
    with connection.cursor() as cursor, connection.schema_editor() as editor:
        cursor.execute(f"GRANT EXECUTE ON ROUTINE {name} TO pg_monitor")
        cursor.execute(OIDS, [name])
        before = cursor.fetchall()
        install(editor, name, LATEST[name])
        cursor.execute(OIDS, [name])
        assert cursor.fetchall() == before


@pytest.mark.django_db
@pytest.mark.parametrize("signature", ["(p_else integer) RETURNS void", "(p_queue text) RETURNS integer"])
def test_a_function_of_another_signature_is_replaced(signature: str) -> None:
    with connection.cursor() as cursor, connection.schema_editor() as editor:
        cursor.execute("DROP FUNCTION pgqueue_wake")
        cursor.execute(f"CREATE FUNCTION pgqueue_wake{signature} LANGUAGE plpgsql AS 'BEGIN END'")
        install(editor, "pgqueue_wake", LATEST["pgqueue_wake"])
        cursor.execute(OIDS, ["pgqueue_wake"])
        [(_, source, _)] = cursor.fetchall()
    assert source == files.function_body("pgqueue_wake", LATEST["pgqueue_wake"])
