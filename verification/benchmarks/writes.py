"""The writes of a message on its way through: WAL, row versions, index entries."""

from __future__ import annotations

import time
from dataclasses import dataclass

from tests.support.sessions import one, row_of

from .cluster import Cluster
from .design import Design
from .measure import WARM_UP, Figures, Run, costs
from .situation import Situation

PATIENCE_SECONDS = 30.0  # seconds
ROWS = """
SELECT sum(n_tup_ins)::bigint, sum(n_tup_upd)::bigint, sum(n_tup_hot_upd)::bigint, sum(n_tup_del)::bigint,
    pg_database_size(current_database()), pg_current_wal_flush_lsn()::text
FROM pg_stat_user_tables"""
# Others of our server do not write: its WAL is what the clients have written.
ENTRIES = """
SELECT coalesce(sum(count), 0)::bigint FROM pg_get_wal_stats(%s, %s, true)
WHERE "resource_manager/record_type" IN ('Btree/INSERT_LEAF', 'Btree/INSERT_POST', 'Btree/SPLIT_L', 'Btree/SPLIT_R')"""
BUSY = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()"""


@dataclass(frozen=True, slots=True)
class Rows:
    inserted: int
    updated: int
    hot: int
    deleted: int
    bytes: int
    lsn: str

    @classmethod
    def of(cls, run: Run) -> Rows:
        return cls(*row_of(run.connection.execute(ROWS)))


def writes(cluster: Cluster, design: Design, situation: Situation, *, seconds: float) -> Figures:
    """WAL bytes of a message that is enqueued, dequeued and completed, by a client that does one after the other."""
    with situation.fresh(cluster, design) as run:
        with_entries = _can_read_wal(run)
        # Pages that are written for the first time after a checkpoint go into the WAL as a whole.
        _work(run, WARM_UP)
        before, rows_before = run.sample(), Rows.of(run)
        _work(run, seconds)
        after, rows = run.sample(), Rows.of(run)
        messages = max(after.completed - before.completed, 1)
        updated, hot = rows.updated - rows_before.updated, rows.hot - rows_before.hot
        remarks = {
            "dead rows": (updated + rows.deleted - rows_before.deleted) / messages,
            "inserted": (rows.inserted - rows_before.inserted) / messages,
            "updated": updated / messages,
            "HOT % of updates": 100 * hot / max(updated, 1),
            "bytes on disk": (rows.bytes - rows_before.bytes) / messages,
        }
        if with_entries:
            entries = one(run.connection, ENTRIES, rows_before.lsn, rows.lsn)
            remarks["index entries"] = entries / messages
        spent = costs(before, after, messages, "message")
        return Figures(spent.pop("WAL bytes per message"), remarks=remarks | spent)


def _can_read_wal(run: Run) -> bool:
    """pg_walinspect comes with the server's contrib modules, and is missing in the wheel."""
    known = "SELECT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'pg_walinspect')"
    if not one(run.connection, known):
        return False
    run.connection.execute("CREATE EXTENSION pg_walinspect")
    return True


def _work(run: Run, seconds: float) -> None:
    """Until all clients are gone."""
    run.tick(seconds)
    # One client: what it enqueues is what it completes.
    run.clients("steady", clients=1, seconds=seconds).wait()
    quiet(run)


def quiet(run: Run) -> None:
    """Wait until all clients are gone: a session reports its counts when it ends."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while one(run.connection, BUSY):
        if time.monotonic() > deadline:
            raise RuntimeError("clients have not ended")
        time.sleep(0.05)
