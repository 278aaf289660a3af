"""Start, reuse, stop and destroy an embedded server.

The folder has the data, the log, and the file `lock`, by which programs take turns. The data directory is locked, too,
by a descriptor that each process of the server inherits: the kernel tells whether one of them lives. Process numbers do
not, because the system uses them again, nor does /proc, which does not tell root everything in a container.
"""

from __future__ import annotations

import fcntl
import os
import pwd
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg import errors, sql

from django_pgqueue.embedded.binaries import Account, Binaries, EmbeddedError, find_binaries, run

SUPERUSER = "postgres"
PORT = 5432  # only a part of the socket's name: the server does not listen on TCP
SOCKET = f".s.PGSQL.{PORT}"
LONGEST_SOCKET_BYTES = 103  # macOS; Linux has 107
UNFIT = set('"$`\\\n,')  # pg_ctl puts the path into a shell command; a comma separates hosts
UNPRIVILEGED = ("postgres", "nobody")
MARK = b"# written when the embedded server's data was made"
DEVELOPMENT = {"shared_buffers": "256MB", "max_connections": "200", "log_line_prefix": "%m [%p] %a "}
# The socket is in the data directory, which is closed to others.
OPTIONS = f"-c listen_addresses= -c port={PORT} -c unix_socket_directories=. -c unix_socket_permissions=0700"
LARGEST_LOG_BYTES = 10 * 1024 * 1024  # a larger one is begun anew when the server starts
PATIENCE_SECONDS = 120  # long enough for a recovery after a crash


class Cluster:
    """Control a private server with its data in `folder`, whose socket only its owner (and root) can open.

    binaries   "auto", "system", "wheel" or the absolute path of a bin folder
    settings   lines of postgresql.conf, written when the data is made; default: for development, with fsync on
    """

    def __init__(
        self, folder: str | Path, *, binaries: str = "auto", settings: Mapping[str, str] = DEVELOPMENT
    ) -> None:
        self.folder = Path(folder).resolve()
        self.settings = settings
        self._choice = binaries
        self._lock = self.folder / "lock"

    @property
    def data(self) -> Path:
        """The data directory, which is the host for a client, too: `data` in the folder, or where that points."""
        return (self.folder / "data").resolve()

    @property
    def log(self) -> Path:
        return self.data.with_name("postgresql.log")

    @property
    def version(self) -> int | None:
        """The major version that made the data; None: there is no data."""
        with suppress(FileNotFoundError):
            return int((self.data / "PG_VERSION").read_text())
        return None

    @property
    def pid(self) -> int | None:
        """The process of the server; None: it does not run."""
        return self._server()[0]

    def url(self, database: str = "postgres") -> str:
        """Return the URL of a database on this server."""
        return f"postgresql://{SUPERUSER}@/{quote(database, safe='')}?host={quote(str(self.data))}"

    def psql(self, database: str = "postgres") -> list[str]:
        """Return the command line of a psql of the same version on this server. Raises EmbeddedError without one."""
        program = find_binaries(self._choice, major=self.version).program("psql")
        return [str(program), "-h", str(self.data), "-p", str(PORT), "-U", SUPERUSER, "-d", database]

    def prepare(self) -> None:
        """Make the folder without starting the server; after that, `url` is known."""
        with self._turn():
            self._place(self._account())

    def start(self) -> bool:
        """Start the server unless it runs, and make its data if there is none. Returns True if this call started it."""
        if self._server()[1]:
            return False
        with self._turn() as turn:
            deadline = time.monotonic() + PATIENCE_SECONDS
            while self._lives():  # it was started, or a process of a killed server has not ended yet
                if self._server()[1]:
                    return False
                self._wait(deadline)
            self._launch(turn)
        return True

    def stop(self) -> bool:
        """Stop the server, ending its connections. Returns False if it was not running."""
        if not self._lives():
            return False
        with self._turn():
            return self._stop()

    def destroy(self) -> bool:
        """Stop the server and remove all its files. Returns False if there was nothing."""
        if not self._lock.exists():
            return False
        with self._turn():
            self._stop()
            self._remove()
        return True

    def ensure_database(self, name: str) -> None:
        """Create a database on the running server if it is missing. Raises EmbeddedError."""
        try:
            with psycopg.connect(
                host=str(self.data), port=PORT, user=SUPERUSER, dbname="postgres", options="", autocommit=True
            ) as session:
                if not session.execute("SELECT FROM pg_database WHERE datname = %s", [name]).rowcount:
                    # Another program may create it at this moment.
                    with suppress(errors.DuplicateDatabase, errors.UniqueViolation):
                        session.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        except psycopg.Error as error:
            raise EmbeddedError(f"The database {name!r} could not be created: {_last_line(str(error))}") from error

    @contextmanager
    def _turn(self) -> Iterator[int]:
        """Let one program at a time start, stop or destroy the server. Yields the descriptor of the lock."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            self.folder.mkdir(parents=True, mode=0o711 if os.geteuid() == 0 else 0o700, exist_ok=True)
            try:
                descriptor = open_private(self._lock)
            except FileNotFoundError:  # destroyed at this moment
                continue
            try:
                # `destroy` removes the file: a lock on a removed file protects nothing.
                if take(descriptor) and os.fstat(descriptor).st_nlink:
                    yield descriptor
                    return
            finally:
                os.close(descriptor)
            self._wait(deadline)

    def _lives(self) -> bool:
        """Return whether a process of the server lives."""
        try:
            if os.geteuid() not in (0, owner := self.data.stat().st_uid):
                raise EmbeddedError(
                    f"{self.data} belongs to another user (uid {owner}): run as that user, or choose another folder."
                )
            with _opened(self.data) as data:
                return not take(data)
        except FileNotFoundError:
            return False

    def _server(self) -> tuple[int | None, bool]:
        """Return the process of the server, and whether it takes connections."""
        if self._lives() and _answers(self.data) and (lines := self._postmaster_pid()):
            return int(lines[0]), lines[-1] in ("ready", "standby")
        return None, False

    def _stop(self) -> bool:
        deadline, stopped = time.monotonic() + PATIENCE_SECONDS, False
        while self._lives():
            if not stopped and (pid := self.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGINT)  # a fast stop, as pg_ctl does it; this way needs no binaries
                stopped = True
            self._wait(deadline)
        return stopped

    def _wait(self, deadline: float) -> None:
        if time.monotonic() > deadline:
            raise EmbeddedError(f"The server in {self.data} neither starts nor stops: read its log, {self.log}.")
        time.sleep(0.02)

    def _postmaster_pid(self) -> list[str]:
        try:
            return [line.strip() for line in (self.data / "postmaster.pid").read_text().splitlines()]
        except FileNotFoundError:
            return []

    def _account(self) -> Account:
        """As root return whom to run the server as, because PostgreSQL does not run as root: the owner of the data or
        of the folder, or an unprivileged user."""
        if os.geteuid() != 0:
            return None
        for path in (self.data, self.folder):
            if path.exists() and (found := path.stat()).st_uid != 0:
                return found.st_uid, found.st_gid
        for name in UNPRIVILEGED:
            with suppress(KeyError):
                entry = pwd.getpwnam(name)
                return entry.pw_uid, entry.pw_gid
        raise EmbeddedError(
            "PostgreSQL does not run as root and there is neither a user postgres nor nobody: run as a normal user, "
            "or create one with `useradd --system postgres`."
        )

    def _place(self, account: Account) -> None:
        """Let `data` point to a folder elsewhere, if the server cannot use this one: foreign folders are never opened
        to the account."""
        link = self.folder / "data"
        if link.exists() or (link.is_symlink() and self.data.parent.is_dir()):
            return
        fits = len(os.fsencode(link / SOCKET)) <= LONGEST_SOCKET_BYTES and not UNFIT.intersection(str(link))
        if fits and (account is None or run(["test", "-x", self.folder], account).returncode == 0):
            return
        base = (Path("/var/lib") if os.geteuid() == 0 else Path.home() / ".local" / "state") / "pgqueue"
        base.mkdir(parents=True, exist_ok=True)
        home = Path(tempfile.mkdtemp(prefix="", dir=base))
        for folder in (base, home) if account else ():
            folder.chmod(0o711)  # the account can pass; its data directory inside is closed to all other users
        link.unlink(missing_ok=True)
        link.symlink_to(home / "data")

    def _launch(self, turn: int) -> None:
        self._clear_leftovers()
        account = self._account()
        self._place(account)
        binaries = find_binaries(self._choice, major=self.version)
        binaries = binaries.usable_by(account, self.data.with_name("binaries")) if account else binaries
        if self.version is None:
            self._make_data(account, binaries, turn)
        if self.log.exists() and self.log.stat().st_size > LARGEST_LOG_BYTES:
            self.log.unlink()
        pg_ctl: list[str | Path] = [binaries.program("pg_ctl"), "start", "-s", "-w", "-t", str(PATIENCE_SECONDS)]
        with _opened(self.data) as data, os.fdopen(open_private(self.log), "rb+") as log:
            fcntl.flock(data, fcntl.LOCK_EX)
            begin = log.seek(0, os.SEEK_END)
            started = run([*pg_ctl, "-D", self.data, "-o", OPTIONS], account, output=log.fileno(), pass_fds=[data])
            if started.returncode != 0:
                log.seek(begin)
                lines = log.read().decode(errors="replace").splitlines() or ["no message"]
                reason = next((line[line.index("FATAL:") :] for line in lines if "FATAL:" in line), lines[-1])
                raise EmbeddedError(f"{binaries} did not start: {reason} (log: {self.log})")

    def _make_data(self, account: Account, binaries: Binaries, turn: int) -> None:
        """Make the data directory, completely or not at all: it gets its name when all is in it. The owner of the
        socket is trusted, and connections over the network are rejected."""
        partial = self.data.with_name("data.partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(mode=0o700)
        if account:
            os.chown(partial, *account)
        initdb: list[str | Path] = [binaries.program("initdb"), "-D", partial, "-U", SUPERUSER, "-E", "UTF8"]
        initdb += ["--auth-local=trust", "--auth-host=reject", "--no-instructions"]
        initdb += ["--no-sync"] if self.settings.get("fsync") == "off" else []
        for locale in ("C.UTF-8", "C"):  # not every system has the first
            made = run([*initdb, f"--locale={locale}"], account, pass_fds=[turn])
            if made.returncode == 0:
                break
        else:
            raise EmbeddedError(f"initdb of {binaries} failed: {_last_line(made.stdout)}")
        with os.fdopen(open_private(partial / "postgresql.conf"), "w") as file:
            file.write(f"\n{MARK.decode()}\n")
            for name, value in self.settings.items():
                quoted = value.replace("'", "''")
                file.write(f"{name} = '{quoted}'\n")
        partial.rename(self.data)

    def _clear_leftovers(self) -> None:
        """Remove what a killed server left, when none of its processes lives: another process may have its number by
        now. Raises EmbeddedError for data or a server that are not this cluster's."""
        if not self.data.exists() or not (names := os.listdir(self.data)):
            return
        if "postgresql.conf" not in names or MARK not in (self.data / "postgresql.conf").read_bytes():
            raise EmbeddedError(
                f"{self.data} was not made by the embedded server: set PGQUEUE_EMBEDDED_DIR to another folder."
            )
        lines = self._postmaster_pid()
        if len(lines) < 5 or not lines[4]:  # it says no socket: PostgreSQL itself decides
            return
        if _answers(self.data / lines[4], lines[3]):
            raise EmbeddedError(
                f"The server (pid {lines[0]}) on {self.data} was started by other means: stop it in the same way."
            )
        for leftover in ("postmaster.pid", SOCKET, f"{SOCKET}.lock"):
            (self.data / leftover).unlink(missing_ok=True)

    def _remove(self) -> None:
        self._clear_leftovers()
        data, partial, link = self.data, self.data.with_name("data.partial"), self.folder / "data"
        shutil.rmtree(partial, ignore_errors=True)
        if data.exists():
            data.rename(partial)  # all or nothing, for whoever comes after an interruption
        for folder in (partial, data.with_name("binaries")):
            if folder.exists():
                shutil.rmtree(folder)
        for file in (self.log, link, self._lock):
            file.unlink(missing_ok=True)
        for folder in {data.parent, self.folder}:
            with suppress(OSError):  # not empty: it has other files, or another program starts the server again
                folder.rmdir()


def open_private(path: Path) -> int:
    """Open a file to append to, which only its owner may read: for root the owner of its folder."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    if os.geteuid() == 0:
        owner = path.parent.stat()
        os.fchown(descriptor, owner.st_uid, owner.st_gid)
    return descriptor


def take(descriptor: int) -> bool:
    """Lock an open file unless it is locked. Returns whether it is locked now for this process."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _answers(folder: Path, port: str = str(PORT)) -> bool:
    """Return whether a server listens on the socket in the folder."""
    with socket.socket(socket.AF_UNIX) as client:
        client.setblocking(False)
        try:
            client.connect(str(folder / f".s.PGSQL.{port}"))
        except BlockingIOError:  # it does, and is busy
            return True
        except (FileNotFoundError, ConnectionRefusedError):
            return False
    return True


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no message"])[-1]
