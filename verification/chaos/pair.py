"""A primary and its standby, two private servers on this machine, behind a proxy that leads to the one that counts."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django_pgqueue.embedded import Cluster, temporary_cluster
from tests.support.proxy import Proxy
from tests.support.waiting import eventually

from .history.recorder import now
from .server import Server, private_server

DATABASE = "pair"


@dataclass(slots=True)
class Pair:
    """``url``: of the database, through the proxy; it stays when the standby takes over."""

    primary: Server
    standby: Server
    proxy: Proxy

    @property
    def url(self) -> str:
        return self.proxy.url

    def synchronous(self, names: str = "*") -> None:
        """From now on the primary answers a commit when the standby has it, too."""
        configure(self.primary, "synchronous_standby_names", names)
        eventually(lambda: one(self.primary, "SELECT sync_state FROM pg_stat_replication") == "sync")

    def cut(self) -> int:
        """The standby gets nothing more. Returns since when, in microseconds since 1970, at the earliest."""
        since = now()
        configure(self.standby, "primary_conninfo", "")
        eventually(lambda: one(self.standby, "SELECT count(*) FROM pg_stat_wal_receiver") == 0)
        return since

    def fail_over(self) -> None:
        """The primary dies, with all of its processes; the standby takes over."""
        self.primary.kill(all_of_it=True)
        assert one(self.standby, "SELECT pg_promote(true, 60)")
        self.proxy.lead_to(self.standby.url(DATABASE))
        self.proxy.cut()


@contextmanager
def server_pair() -> Iterator[Pair]:
    with private_server() as primary, temporary_cluster(start=False) as copy:
        url = primary.make_database(DATABASE)
        primary.cluster.stop()
        clone(primary.cluster, copy)
        primary.cluster.start()
        copy.start()
        pair = Pair(primary, Server(copy), Proxy(url))
        try:
            eventually(lambda: one(primary, "SELECT state FROM pg_stat_replication") == "streaming")
            yield pair
        finally:
            pair.proxy.__exit__(None, None, None)
            with suppress(AssertionError):  # it is gone
                pair.standby.kill(all_of_it=True)


def clone(source: Cluster, target: Cluster) -> None:
    """Copy the data of a server that is stopped, to follow it as a standby."""
    owner = source.data.stat()
    subprocess.run(["cp", "-a", str(source.data), str(target.data)], check=True)
    with (target.data / "postgresql.auto.conf").open("a") as file:
        file.write(f"primary_conninfo = 'host={source.data} port=5432 user=postgres'\n")
    signal = target.data / "standby.signal"
    signal.touch()
    os.chown(signal, owner.st_uid, owner.st_gid)
    Path(target.data / "postmaster.opts").unlink(missing_ok=True)


def configure(server: Server, name: str, value: str) -> None:
    with server.connect() as session:
        session.execute(f"ALTER SYSTEM SET {name} = '{value}'")
        session.execute("SELECT pg_reload_conf()")


def one(server: Server, query: str) -> Any:
    with server.connect() as session:
        row = session.execute(query).fetchone()
    return row[0] if row else None
