"""A storm in which the primary dies and its standby takes over. Lost is what the standby had not got, and only that."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from .history import History, Recorder, Row, audit
from .history.load import forget, rows_of
from .history.recorder import now
from .pair import DATABASE, Pair, server_pair
from .storm import Storm

LEASE_LOST = "PGQ02"
Change = tuple[Any, ...]


@dataclass(slots=True)
class Promotion:
    """``synchronous``: the primary answers when the standby has it, too. Else the standby is cut off a second before.

    ``since``, ``until``: what was answered between these times may be lost. ``stale``: leases that were lost, and whose
    holders have tried to settle.
    """

    pair: Pair
    folder: Path
    synchronous: bool
    seed: int = 1
    since: int = 0
    until: int = 0
    stale: int = 0
    lost: list[Change] = field(default_factory=list)

    def play(self) -> History:
        if self.synchronous:
            self.pair.synchronous()
        storm = Storm(self.pair.url, self.folder, self.seed, server=self.pair.standby, trouble=self.trouble)
        history = storm.run()
        self.lost = sorted(committed(self.pair, self.folder) - {change(row) for row in history.rows})
        return history if self.synchronous else forget(history, self.since, self.until)

    def trouble(self, driver: Recorder) -> None:
        time.sleep(3)
        driver.info("fault", kind="promotion", lasts=6_000_000, synchronous=self.synchronous)
        self.since = now()
        if not self.synchronous:
            self.pair.cut()
            time.sleep(1)
        self.pair.fail_over()
        self.until = now()
        self.settle_with_lost_leases(driver)
        time.sleep(3)

    def settle_with_lost_leases(self, driver: Recorder) -> None:
        """With each token that the new primary does not know; the checker wants each refused."""
        given = list(leases(self.folder))
        with psycopg.connect(self.pair.url, autocommit=True) as session:
            tokens = session.execute("SELECT token::text FROM chaos_audit WHERE token IS NOT NULL").fetchall()
            known = {token for (token,) in tokens}
            for message, token, _ in given:
                if token not in known:
                    self.stale += 1
                    complete(session, driver, message, token)

    @property
    def lost_messages(self) -> int:
        return sum(event == "created" for _, event, *_ in self.lost)

    def __str__(self) -> str:
        what = f"{self.lost_messages:,} messages and {len(self.lost):,} changes"
        if self.synchronous:
            return f"promotion of a synchronous standby: no answer lost, and {what} that no client had an answer for"
        return f"promotion of an asynchronous standby: {what} lost; {self.stale:,} lost leases, each refused"


def promotion(folder: Path, seed: int, *, synchronous: bool) -> tuple[Promotion, History]:
    with server_pair() as pair:
        played = Promotion(pair, folder, synchronous, seed)
        return played, played.play()


def complete(session: psycopg.Connection[Any], driver: Recorder, message: int, token: str) -> None:
    call = driver.invoke("complete", ids=[message], tokens=[token])
    try:
        rows = session.execute("SELECT pgqueue_complete(%s, %s)", ([message], [token])).fetchall()
        call.ok(done=[row[0] for row in rows])
    except psycopg.Error as error:
        call.fail("lease lost" if error.sqlstate == LEASE_LOST else str(error))


def leases(folder: Path) -> Iterator[tuple[int, str, int]]:
    """Yield the leases that the consumers got until now. A line that is being written comes later."""
    for file in folder.glob("client-consumer-*.jsonl"):
        for line in file.read_text().splitlines()[:-1]:
            yield from json.loads(line).get("value", {}).get("leases", [])


def committed(pair: Pair, folder: Path) -> set[Change]:
    """Return the changes on the disk of the old primary."""
    old = folder / "old"
    old.mkdir()
    pair.primary.recover()
    with pair.primary.connect(DATABASE) as session:
        audit.dump(session, old)
    return {change(row) for row in rows_of(old)}


def change(row: Row) -> Change:
    """Return the fields that identify a change; numbers are given again after a loss."""
    return row.committed, row.event, row.xid, row.seq, row.at, row.message or 0, row.token or ""
