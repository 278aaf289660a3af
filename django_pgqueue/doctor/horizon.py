"""Find what keeps dead rows from being cleaned up: old transactions, prepared ones, replication slots, standbys.

A finding never contains the query of a session, because it may hold secrets.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from django_pgqueue.doctor.finding import Finding, Limits, Severity, age_text, safe_name, size_text
from django_pgqueue.sql.call import call

# VACUUM has a snapshot, but does not keep dead rows.
SESSIONS = """
SELECT a.pid, a.usename::text, a.application_name, a.state, a.xact_start, clock_timestamp() - a.xact_start,
    greatest(age(a.backend_xmin), age(a.backend_xid))
FROM pg_stat_activity AS a
WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()
    AND coalesce(a.backend_type, '') NOT IN ('autovacuum worker', 'walsender', 'parallel worker')
    AND (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL)
    AND a.pid NOT IN (SELECT v.pid FROM pg_stat_progress_vacuum AS v)
    AND (a.xact_start IS NULL OR a.xact_start < clock_timestamp() - %s::interval)
ORDER BY a.xact_start NULLS LAST
LIMIT %s
"""
PREPARED = """
SELECT p.gid, p.owner::text, p.prepared, clock_timestamp() - p.prepared, age(p.transaction)
FROM pg_prepared_xacts AS p
WHERE p.database = current_database() AND p.prepared < clock_timestamp() - %s::interval
ORDER BY p.prepared
LIMIT %s
"""
SLOTS = """
SELECT s.slot_name::text, s.active, age(s.xmin), pg_wal_lsn_diff(
    CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END, s.restart_lsn)::bigint
FROM pg_replication_slots AS s
ORDER BY s.slot_name
LIMIT %s
"""
STANDBYS = """
SELECT a.pid, a.usename::text, a.application_name, age(a.backend_xmin)
FROM pg_stat_activity AS a
WHERE a.backend_type = 'walsender' AND age(a.backend_xmin) > %s
ORDER BY age(a.backend_xmin) DESC
LIMIT %s
"""
COST = "rows that died since then cannot be cleaned up"
# A role without the right to see other roles' sessions gets no times of them: those sessions are only counted.
Session = tuple[int, str, str, str, datetime, timedelta, int]


def examine_horizon(using: str, limits: Limits) -> Iterator[Finding]:
    """Report sessions, prepared transactions, slots and standbys that keep dead rows."""
    hidden = 0
    for session in call(using, SESSIONS, (limits.old_transaction, limits.most)):
        if session[4] is None:
            hidden += 1
        else:
            yield old_transaction(session, limits)
    if hidden:
        yield unseen(hidden)
    for row in call(using, PREPARED, (limits.old_transaction, limits.most)):
        yield prepared_transaction(*row, limits=limits)
    for slot, active, xids, kept in call(using, SLOTS, (limits.most,)):
        if xids is not None and xids > limits.old_xids:
            yield slot_behind(slot, xids, active=active)
        if not active and kept is not None and kept > limits.slot_bytes:
            yield slot_left(slot, kept)
    for row in call(using, STANDBYS, (limits.old_xids, limits.most)):
        yield standby(*row)


def severity(age: timedelta, limits: Limits) -> Severity:
    """Return the severity of a transaction of this age."""
    return Severity.CRITICAL if age > limits.very_old_transaction else Severity.WARNING


def old_transaction(session: Session, limits: Limits) -> Finding:
    """Report a session with an old transaction."""
    pid, user, application, state, since, age, xids = session
    facts = {
        "pid": pid, "user": user, "application_name": safe_name(application), "state": state,
        "since": since.isoformat(), "seconds": age.total_seconds(), "transactions": xids,
    }  # fmt: skip
    return Finding(
        "old_transaction",
        severity(age, limits),
        f"Session {pid} of {safe_name(user)} (application {safe_name(application)}, {state}) has a transaction open "
        f"since {since:%Y-%m-%d %H:%M:%S %Z}, for {age_text(age)}: {COST}.",
        f"If it is not needed, end it: SELECT pg_terminate_backend({pid}). Dumps and exports end by themselves.",
        facts,
    )


def unseen(count: int) -> Finding:
    """Report how many sessions this role may not see."""
    return Finding(
        "sessions_hidden",
        Severity.NOTE,
        f"{count} session(s) of other roles have a transaction open; this role may not see since when.",
        "GRANT pg_read_all_stats TO the role that runs the doctor.",
        {"sessions": count},
    )


def prepared_transaction(
    gid: str, owner: str, since: datetime, age: timedelta, xids: int, *, limits: Limits
) -> Finding:
    """Report an old prepared transaction."""
    return Finding(
        "prepared_transaction",
        severity(age, limits),
        f"The prepared transaction {safe_name(gid)!r} of {safe_name(owner)} waits since {since:%Y-%m-%d %H:%M:%S %Z}, "
        f"for {age_text(age)}: {COST}, and it keeps its locks, also over a restart.",
        "Let its transaction manager end it. If that is gone, run COMMIT PREPARED or ROLLBACK PREPARED with the name.",
        {
            "gid": safe_name(gid), "user": owner, "since": since.isoformat(), "seconds": age.total_seconds(),
            "transactions": xids,
        },
    )  # fmt: skip


def slot_behind(slot: str, xids: int, *, active: bool) -> Finding:
    """Report a replication slot that keeps dead rows."""
    state = "is active" if active else "is inactive"
    return Finding(
        "slot_behind",
        Severity.WARNING,
        f"The replication slot {slot!r} {state} and is {xids} transactions behind: {COST}.",
        f"End the long query on its standby; if the slot is not needed: SELECT pg_drop_replication_slot('{slot}').",
        {"slot": slot, "active": active, "transactions": xids},
    )


def slot_left(slot: str, kept: int) -> Finding:
    """Report an inactive replication slot that keeps write-ahead log."""
    return Finding(
        "slot_left",
        Severity.WARNING,
        f"The replication slot {slot!r} is inactive and keeps {size_text(kept)} of write-ahead log: disks fill up.",
        f"Start its consumer again; if the slot is not needed: SELECT pg_drop_replication_slot('{slot}').",
        {"slot": slot, "bytes": kept},
    )


def standby(pid: int, user: str, application: str, xids: int) -> Finding:
    """Report a standby that keeps dead rows."""
    return Finding(
        "standby_behind",
        Severity.WARNING,
        f"The standby {safe_name(application)} (session {pid} of {safe_name(user)}) keeps rows that died in the last "
        f"{xids} transactions: a query runs there, and hot_standby_feedback is on.",
        "End the query on the standby, or set max_standby_streaming_delay and hot_standby_feedback there.",
        {"pid": pid, "user": user, "application_name": safe_name(application), "transactions": xids},
    )
