"""Each kind of role against each function and each column: what is not granted is refused, with SQLSTATE 42501.

The two tables below are what is promised in docs/how-to/roles.md. They are written by hand, not made from the code.
"""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from django_pgqueue.sql import files
from tests.security.conftest import KINDS
from tests.support.cases import cases
from tests.support.sessions import Session

Login = Callable[..., Session]

VERBS = """
                    producer  worker  operator  reader  pipeline
    enqueue             x        x       .         .       .
    enqueue_many        x        x       .         .       .
    enqueue_unique      x        x       .         .       .
    raise               x        x       x         .       .
    dequeue             .        x       .         .       .
    dequeue_matching    .        x       .         .       .
    dequeue_wait        .        x       .         .       .
    pop                 .        x       .         .       .
    heartbeat           .        x       .         .       .
    spend               .        x       .         .       .
    keep_logs           .        x       .         .       .
    complete            .        x       .         .       .
    defer               .        x       .         .       .
    defer_unknown       .        x       .         .       .
    retry               .        x       .         .       .
    dead_letter         .        x       .         .       .
    wait                .        x       .         .       .
    next_due            .        x       .         .       .
    is_contended        .        x       .         .       .
    tick                .        x       .         .       .
    entries_walked      .        x       .         .       .
    schedule_fire       .        x       .         .       .
    sweep               .        x       x         .       .
    prune               .        x       x         .       .
    prune_queues        .        x       x         .       .
    schedule_prune      .        x       x         .       .
    measure             .        x       x         .       .
    peek                .        .       x         x       x
    metrics             .        .       x         x       x
    explain_channel     .        .       x         x       x
    explain_message     .        .       x         x       x
    health              .        .       x         x       x
    limit_health        .        .       x         x       x
    held_channels       .        .       x         x       x
    waiting             .        .       x         x       x
    breakers            .        .       x         x       x
    find_unreachable    .        .       x         x       x
    histogram_percentile .       .       x         x       x
    remove_released     .        .       x         .       .
    repair              .        .       x         .       .
    channel_set         .        .       x         .       .
    channel_pause       .        .       x         .       .
    channel_resume      .        .       x         .       .
    channel_purge       .        .       x         .       .
    channel_release     .        .       x         .       .
    channel_erase       .        .       x         .       .
    limit_set           .        x       x         .       .
    breaker_set         .        x       x         .       .
    breaker_changes     .        x       .         .       .
    open_breakers       .        x       .         .       .
    breaker_open        .        .       x         .       .
    breaker_close       .        .       x         .       .
    limit_drop          .        .       x         .       .
    limit_pause         .        x       x         .       .
    limit_resume        .        x       x         .       .
    handler_pause       .        .       x         .       .
    handler_resume      .        .       x         .       .
    queue_pause         .        .       x         .       .
    queue_resume        .        .       x         .       .
    queue_purge         .        .       x         .       .
    queue_drop          .        .       x         .       .
    queue_set           .        .       x         .       .
    cancel              .        .       x         .       .
    redrive             .        .       x         .       x
    reschedule          .        .       x         .       .
    lease_release       .        .       x         .       .
    discard             .        .       x         .       .
    delete_dead        .        .       x         .       .
    edit                .        .       x         .       .
    schedule_run        .        .       x         .       .
    lake_exported       .        .       .         .       x
    ingest_open         .        .       .         .       x
    ingest              .        .       .         .       x
    ingest_clean        .        .       .         .       x
    batch_open          x        x       .         .       .
    batch_seal          x        x       .         .       .
    batch_enter         x        x       .         .       .
    batch_counts        x        x       x         x       x
    batch_check         .        .       x         x       x
    enqueue_after       x        x       .         .       .
    after_results       .        x       .         .       .
    progress            .        x       .         .       .
    progress_of         x        x       x         x       x
    notify_event        x        x       x         .       .
    step_event          .        x       .         .       .
    step_keep           .        x       .         .       .
    step_pause          .        x       .         .       .
    steps               .        x       .         .       .
"""
# S I U D: the whole table; i u s: some columns, those of COLUMNS.
TABLES = """
                      producer  worker  operator  reader  pipeline
    message             si         Si      S         S       S
    channel             s          S       SIu       S       S
    queue               .          S       SIu       S       S
    worker              .          SIUD    Su        S       S
    schedule            .          SIU     SIuD      S       S
    limit               .          S       S         S       S
    limit_handler       .          S       S         S       S
    place               .          .       S         S       S
    meter               .          .       S         S       S
    breaker_outcome     .          .       S         S       S
    breaker_change      .          .       S         S       S
    spent               .          .       S         S       S
    schedule_tick       .          .       S         S       S
    archived_message    .          .       S         S       S
    dead_letter         .          .       S         S       S
    log                 .          .       S         S       S
    lake                .          .       SD        S       SD
    queue_metric        .          .       S         S       SID
    lane                .          .       S         S       S
    arrival             .          .       S         S       S
    gate                .          .       S         S       S
    gate_side           .          .       S         S       S
    order_note          .          .       S         S       S
    unique_key          .          .       S         S       S
    departure           .          .       S         S       S
    channel_size        .          .       S         S       S
    floor               .          .       S         S       S
    waiter              .          .       S         S       S
    tally               .          .       S         S       S
    pruned              .          .       S         S       S
    unarchived          .          .       S         S       S
    unarchived_total    .          .       S         S       S
    queue_warning       .          .       S         S       S
    ingest              .          .       S         S       S
    ingest_stage        .          .       S         S       S
    activity            .          .       S         S       S
    backlog             .          .       S         S       S
    measurement         .          .       S         S       S
    batch               .          .       S         S       S
    batch_member        .          .       S         S       S
    batch_lost          .          .       S         S       S
    batch_added         .          .       S         S       S
    batch_unsure        .          .       S         S       S
    progress            .          .       S         S       S
    step                .          .       S         S       S
    event               .          .       S         S       S
    event_unsure        .          .       S         S       S
"""
# Not: id, status, attempts, state, errors, created_at, leased_at, lease_expires_at, lease_token, worker, …
GIVEN = "channel_id handler payload body headers priority dequeue_at max_attempts backoff backoff_factor "
GIVEN += "backoff_longest dedupe_key order_key"
LIMITS = "name max_concurrency max_size full_policy release_interval release_burst weight archive ordered on_dead "
LIMITS += "context paused_at pause_reason paused_until released_at"
PLAN = "name handler queue channel payload headers priority cron every time_zone enabled missed missed_limit grace "
PLAN += "overlap"
COLUMNS = {
    ("s", "message"): "id",
    ("i", "message"): GIVEN,
    ("s", "channel"): "id queue name",
    ("u", "channel"): LIMITS,
    ("u", "queue"): "paused_at pause_reason paused_until archive retention dead_letter_retention events "
    "max_concurrency release_interval release_burst fairness max_share",
    ("u", "worker"): "paused_at pause_reason",
    ("u", "schedule"): PLAN,
}
STATEMENTS = {
    "s": "SELECT {column} FROM pgqueue_{table}",
    "i": "INSERT INTO pgqueue_{table} ({column}) VALUES (DEFAULT)",
    "u": "UPDATE pgqueue_{table} SET {column} = DEFAULT",
}
REFUSED = psycopg.errors.InsufficientPrivilege


def parsed(text: str) -> dict[str, dict[str, str]]:
    head, *rows = (line.split() for line in text.strip().splitlines())
    assert tuple(head) == KINDS
    return {name: dict(zip(KINDS, marks, strict=True)) for name, *marks in rows}


def is_refused(session: Session, statement: str) -> bool:
    """EXPLAIN asks for the same rights as the statement, and does nothing. A CALL has none; it refuses a NULL."""
    try:
        session.execute(statement if statement.startswith("CALL ") else f"EXPLAIN {statement}")
    except REFUSED:  # the class of SQLSTATE 42501
        return True
    except psycopg.Error as error:
        if error.sqlstate != "PGQ07":
            raise
    return False


def columns(owner: Session) -> dict[str, list[str]]:
    """Return the columns of all tables of the queue, but for the partitions."""
    found: dict[str, list[str]] = {}
    for table, column in owner.execute(
        "SELECT substr(c.relname, 9), a.attname FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid"
        " WHERE c.relname LIKE 'pgqueue%' AND c.relkind IN ('r', 'p') AND NOT c.relispartition"
        " AND a.attnum > 0 AND NOT a.attisdropped"
    ):
        found.setdefault(table, []).append(column)
    return found


@cases("kind", [*KINDS, "stranger"])
def test_a_role_reaches_exactly_the_columns_that_it_was_granted(empty: Session, login: Login, kind: str) -> None:
    session = login(kind)
    promised = parsed(TABLES)
    there = columns(empty)
    assert sorted(there) == sorted(promised)
    wrong = []
    for table, names in there.items():
        marks = promised[table].get(kind, ".")
        for letter, statement in STATEMENTS.items():
            some = COLUMNS[letter, table].split() if letter in marks else []
            assert set(some) <= set(names)
            for column in names:
                allowed = letter.upper() in marks or column in some
                if is_refused(session, statement.format(table=table, column=column)) == allowed:
                    wrong.append((letter, table, column, "refused" if allowed else "allowed"))
        if is_refused(session, f"DELETE FROM pgqueue_{table}") == ("D" in marks):
            wrong.append(("d", table))
    assert wrong == []


@cases("kind", [*KINDS, "stranger"])
def test_no_role_empties_locks_or_changes_a_table(empty: Session, login: Login, kind: str) -> None:
    session = login(kind)
    for table in parsed(TABLES):
        for statement in (
            f"TRUNCATE pgqueue_{table}",
            f"ALTER TABLE pgqueue_{table} ADD COLUMN mine text",
            f"CREATE TRIGGER mine AFTER INSERT ON pgqueue_{table} EXECUTE FUNCTION tsvector_update_trigger()",
            f"CREATE RULE mine AS ON INSERT TO pgqueue_{table} DO INSTEAD NOTHING",
        ):
            with pytest.raises(REFUSED):
                session.execute(statement)
    with pytest.raises(REFUSED), session.transaction():
        session.execute("LOCK TABLE pgqueue_message IN EXCLUSIVE MODE")


@cases("kind", [*KINDS, "stranger"])
def test_a_role_runs_exactly_the_functions_that_it_was_granted(empty: Session, login: Login, kind: str) -> None:
    """The internal ones are granted to no role: they trust their callers."""
    session = login(kind)
    promised = parsed(VERBS)
    wrong = []
    for name in files.latest_functions():
        verb = name.removeprefix("pgqueue_")
        word, types = empty.execute(
            "SELECT CASE p.prokind WHEN 'p' THEN 'CALL' ELSE 'SELECT' END,"
            " ARRAY(SELECT format('NULL::%%s', t::regtype) FROM unnest(p.proargtypes) AS t)"
            " FROM pg_proc AS p WHERE p.proname = %s",
            [name],
        ).fetchone()
        allowed = promised.get(verb, {}).get(kind) == "x"
        if is_refused(session, f"{word} {name}({', '.join(types)})") == allowed:
            wrong.append(verb)
    assert wrong == []
    assert {f"pgqueue_{verb}" for verb in promised} <= set(files.latest_functions())


@cases("kind", KINDS)
def test_no_role_makes_objects_beside_those_of_the_queue(empty: Session, login: Login, kind: str) -> None:
    """A role that could, could make objects that the queue's functions would find in place of PostgreSQL's own."""
    with pytest.raises(REFUSED):
        login(kind).execute("CREATE TABLE public.pgqueue_mine (id bigint)")
    with pytest.raises(REFUSED):
        login(kind).execute("CREATE OR REPLACE FUNCTION pgqueue_wake(text) RETURNS void LANGUAGE sql AS ''")
