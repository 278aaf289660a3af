"""Start, reuse, stop and destroy an embedded server."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Literal, ParamSpec, TypeVar
from urllib.parse import quote

from django_pgqueue.embedded import home as homes
from django_pgqueue.embedded import postmaster
from django_pgqueue.embedded.account import Account, account_for
from django_pgqueue.embedded.binaries import Binaries, find_binaries
from django_pgqueue.embedded.errors import EmbeddedError
from django_pgqueue.embedded.home import PORT, ClusterState, Home
from django_pgqueue.embedded.initdb import DEVELOPMENT, SUPERUSER, last_line, make_data, partial_of
from django_pgqueue.embedded.log import fatal_line, make_log_file

P = ParamSpec("P")
R = TypeVar("R")

CREATE_DATABASE = """
SELECT format('CREATE DATABASE %I', :'name') WHERE :'name' NOT IN (SELECT datname FROM pg_database) \\gexec
"""
START_STOP_SECONDS = 120  # long enough for a recovery after a crash


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """Describe a cluster."""

    state: Literal["absent", "stopped", "running"]
    folder: Path  # where it was asked to be
    data: Path | None = None  # where the data is
    version: int | None = None  # the major version that made the data
    pid: int | None = None
    socket_dir: Path | None = None
    log: Path | None = None
    account: str | None = None
    url: str | None = None


def _in_one_line(verb: Callable[P, R]) -> Callable[P, R]:
    """Turn an OSError into an EmbeddedError of one line."""

    @wraps(verb)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return verb(*args, **kwargs)
        except OSError as error:
            raise EmbeddedError(f"Embedded PostgreSQL: {error.strerror or error}: {error.filename}") from error

    return wrapper


class Cluster:
    """Control a private server with its data in `folder`, whose socket only its owner (and root) can open.

    binaries   "auto", "system", "wheel" or the absolute path of a bin folder
    settings   lines of postgresql.conf, written when the data is made; default: for development, with fsync on
    user       as root: the account to run as when the data is made; default: the folder's owner, `postgres` or `nobody`
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        binaries: str = "auto",
        settings: Mapping[str, str] = DEVELOPMENT,
        user: str | None = None,
    ) -> None:
        self.folder = Path(folder).resolve()
        self.settings = settings
        self._choice = binaries
        self._user = user

    @_in_one_line
    def start(self) -> bool:
        """Start the server unless it runs, and make its data if there is none. Returns True if this call started it."""
        if (running := self._running()) and running.ready:
            return False
        with homes.cluster_lock(self.folder):
            home, account = self._home_made()
            if self._settled():
                return False
            binaries = self._binaries(home).readable_by(account, home.copies)
            if not home.data.exists():
                home.save(replace(home.load(), databases=()))
                make_data(home.data, account, binaries, self.settings)
            self._launch(home, account, binaries)
        return True

    @_in_one_line
    def stop(self) -> bool:
        """Stop the server, ending its connections. Returns False if it was not running."""
        if self._running() is None:
            return False
        with homes.cluster_lock(self.folder):
            return self._stop()

    @_in_one_line
    def destroy(self) -> bool:
        """Stop the server and remove all its files. Returns False if there was nothing."""
        if homes.find_home(self.folder) is None:
            return False
        with homes.cluster_lock(self.folder):
            home = homes.find_home(self.folder)
            if home is None:
                return False
            self._stop()
            self._remove(home)
        return True

    @_in_one_line
    def status(self) -> ClusterStatus:
        """Return the state of the cluster."""
        home = homes.find_home(self.folder)
        try:
            return self._status(home) if home else ClusterStatus("absent", self.folder)
        except FileNotFoundError:  # destroyed at this moment
            return ClusterStatus("absent", self.folder)

    def _status(self, home: Home) -> ClusterStatus:
        account, state, running = self._account(home), home.load(), self._running()
        return ClusterStatus(
            "running" if running else "stopped",
            self.folder,
            data=home.data,
            version=_data_version(home),
            pid=running.pid if running else None,
            socket_dir=home.socket_dir(state),
            log=home.log,
            account=account.name,
            url=self.url(),
        )

    @_in_one_line
    def prepare(self) -> None:
        """Make the folder without starting the server; after that, `url` is known."""
        with homes.cluster_lock(self.folder):
            self._home_made()

    @_in_one_line
    def socket_dir(self) -> Path:
        """Return the host for a client; if there is no cluster yet, the host that it would have."""
        home = homes.find_home(self.folder)
        return home.socket_dir(home.load()) if home else Home(self.folder).data

    def url(self, database: str = "postgres") -> str:
        """Return the URL of a database on this server."""
        return f"postgresql://{SUPERUSER}@/{quote(database, safe='')}?host={quote(str(self.socket_dir()))}"

    @_in_one_line
    def ensure_database(self, name: str) -> None:
        """Create a database on the running server if it is missing. Raises EmbeddedError."""
        home = homes.find_home(self.folder)
        if home is None or name in home.load().databases:
            return
        with homes.cluster_lock(self.folder):
            account = self._account(home)
            command = self._psql(self._binaries(home).readable_by(account, home.copies), home)
            done = account.run([*command, "-Xq", "-v", "ON_ERROR_STOP=1", "-v", f"name={name}"], script=CREATE_DATABASE)
            if done.returncode != 0:
                raise EmbeddedError(f"The database {name!r} could not be created: {last_line(done.stderr)}")
            state = home.load()
            home.save(replace(state, databases=(*state.databases, name)))

    @_in_one_line
    def psql(self, database: str = "postgres") -> list[str]:
        """Return the command line of a psql of the same version on this server. Raises EmbeddedError without a
        cluster."""
        home = homes.find_home(self.folder)
        if home is None:
            raise EmbeddedError(f"There is no cluster in {self.folder}: start it first.")
        return [*self._psql(self._binaries(home), home), "-d", database]

    def _running(self) -> postmaster.Postmaster | None:
        """Return the running server, or None. Raises EmbeddedError for a server on this data that this package did not
        start."""
        home = homes.find_home(self.folder)
        if home is None:
            return None
        try:
            self._account(home)  # raises an error that names the owner, if this process may not read the data
            found, state = postmaster.read_postmaster(home.data), home.load()
        except FileNotFoundError:  # destroyed at this moment
            return None
        # Until the server is ready, the command line on disk is that of the server before.
        if found and found.ready and not found.started_as(state.cluster_name) and found.alive():
            raise EmbeddedError(
                f"The server (pid {found.pid}) on {home.data} was started by other means: stop it in the same way."
            )
        return found

    def _settled(self) -> postmaster.Postmaster | None:
        """Return the server once it is ready, or None. Wait for a server that is starting or stopping."""
        deadline = time.monotonic() + START_STOP_SECONDS
        while (running := self._running()) and not running.ready:
            if time.monotonic() > deadline:
                raise EmbeddedError(
                    f"The server (pid {running.pid}) in {running.data} neither starts nor stops: read its log."
                )
            time.sleep(0.05)
        return running

    def _home_made(self) -> tuple[Home, Account]:
        home = homes.find_home(self.folder)
        if home is None:
            account = self._account(Home(self.folder))
            return homes.create_home(self.folder, account), account
        account, state = self._account(home), home.load()
        if not self._settled():
            home.save(home.with_socket_dir(state, account))
        return home, account

    def _account(self, home: Home) -> Account:
        return account_for(home.path, home.data, self._user)

    def _binaries(self, home: Home) -> Binaries:
        return find_binaries(self._choice, major=_data_version(home))

    def _psql(self, binaries: Binaries, home: Home) -> list[str]:
        host = str(home.socket_dir(home.load()))
        return [str(binaries.program("psql")), "-h", host, "-p", str(PORT), "-U", SUPERUSER]

    def _launch(self, home: Home, account: Account, binaries: Binaries) -> None:
        state = home.load()
        socket_dir = home.socket_dir(state)
        postmaster.clear_leftovers(home.data, socket_dir, PORT)
        make_log_file(home.log, account)
        fixed = {
            "listen_addresses": "",
            "port": str(PORT),
            "unix_socket_directories": f'"{socket_dir}"',
            "unix_socket_permissions": "0700",
            "cluster_name": state.cluster_name,
        }
        options = " ".join(f"-c {shlex.quote(f'{name}={value}')}" for name, value in fixed.items())
        pg_ctl: list[str | Path] = [binaries.program("pg_ctl"), "start", "-s", "-w", "-t", str(START_STOP_SECONDS)]
        before = home.log.stat().st_size
        started = account.run([*pg_ctl, "-D", home.data, "-l", home.log, "-o", options])
        if started.returncode != 0:
            reason = fatal_line(home.log, before) or last_line(started.stderr)
            raise EmbeddedError(f"{binaries} did not start: {reason} (log: {home.log})")

    def _stop(self) -> bool:
        home, running = homes.find_home(self.folder), self._settled()
        if home is None or running is None:
            return False
        os.kill(running.pid, signal.SIGINT)  # a fast stop, as pg_ctl does it; this way needs no binaries
        deadline = time.monotonic() + START_STOP_SECONDS
        while running.alive():
            if time.monotonic() > deadline:
                raise EmbeddedError(
                    f"The server (pid {running.pid}) did not stop in {START_STOP_SECONDS} s (log: {home.log})"
                )
            time.sleep(0.02)
        return True

    def _remove(self, home: Home) -> None:
        state: ClusterState = home.load()
        for folder in (home.data, partial_of(home.data), home.copies):
            if folder.exists():
                shutil.rmtree(folder)
        if state.socket_dir:
            shutil.rmtree(state.socket_dir, ignore_errors=True)
        for file in (
            home.log,
            home.log.with_suffix(".log.1"),
            home.state_file,
            self.folder / "location",
            self.folder / "lock",
        ):
            file.unlink(missing_ok=True)
        for folder in (home.path, self.folder):
            with suppress(OSError):  # not empty: it has other files, or another process starts the server again
                folder.rmdir()


def _data_version(home: Home) -> int | None:
    try:
        return int((home.data / "PG_VERSION").read_text())
    except FileNotFoundError:
        return None
