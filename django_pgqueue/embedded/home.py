"""Lay out the files in the folder of a cluster, and find the folder that it really uses."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from django_pgqueue.embedded.account import Account
from django_pgqueue.embedded.errors import EmbeddedError

PORT = 5432  # only a part of the socket's name: the server does not listen on TCP
LONGEST_SOCKET_BYTES = 99  # the kernel's limit is 107, macOS has 103
SHELL_SPECIAL = set('"$`\\\n')  # pg_ctl puts the paths into a shell command between double quotes


@dataclass(frozen=True, slots=True)
class ClusterState:
    """Hold the contents of cluster.json, which proves that the data is the cluster's and marks its server."""

    id: str = field(default_factory=lambda: secrets.token_hex(6))
    socket_dir: str | None = None  # None: the data directory
    databases: tuple[str, ...] = ()

    @property
    def cluster_name(self) -> str:
        return f"pgqueue-{self.id}"


@dataclass(frozen=True, slots=True)
class Home:
    """Name the files of a cluster."""

    path: Path

    @property
    def data(self) -> Path:
        return self.path / "data"

    @property
    def copies(self) -> Path:
        return self.path / "binaries"

    @property
    def log(self) -> Path:
        return self.path / "postgresql.log"

    @property
    def state_file(self) -> Path:
        return self.path / "cluster.json"

    def load(self) -> ClusterState:
        """Read the state file. Raises FileNotFoundError if the folder has no cluster."""
        values = json.loads(self.state_file.read_text())
        return ClusterState(values["id"], values["socket_dir"], tuple(values["databases"]))

    def save(self, state: ClusterState) -> None:
        """Write the state file, which only its owner may read."""
        write_privately(self.state_file, json.dumps(asdict(state)) + "\n")

    def socket_dir(self, state: ClusterState) -> Path:
        """Return the folder of the socket: the data directory, unless its path is too long for a socket."""
        return Path(state.socket_dir) if state.socket_dir else self.data

    def with_socket_dir(self, state: ClusterState, account: Account) -> ClusterState:
        """Return the state with a socket folder that exists and whose path is short enough. Raises EmbeddedError."""
        if state.socket_dir and _is_private(Path(state.socket_dir), account):
            return state
        if not state.socket_dir and _fits(self.data):
            return state
        for base in (tempfile.gettempdir(), "/tmp", "/var/tmp"):
            if _fits(Path(base) / "pgqueue-12345678") and account.can_enter(Path(base)):
                folder = tempfile.mkdtemp(prefix="pgqueue-", dir=base)
                os.chown(folder, account.uid, account.gid)
                return replace(state, socket_dir=folder)
        raise EmbeddedError(
            f"{self.path} is too long for a socket and no short temporary folder is usable: set PGQUEUE_EMBEDDED_DIR."
        )


def find_home(asked: Path) -> Home | None:
    """Return the home of an existing cluster, or None: the folder itself, or the folder that its file `location` names.

    Raises EmbeddedError for data that the embedded server did not make.
    """
    if Home(asked).state_file.exists():
        return Home(asked)
    if Home(asked).data.exists():
        raise EmbeddedError(
            f"{Home(asked).data} was not made by the embedded server: set PGQUEUE_EMBEDDED_DIR to another folder."
        )
    try:
        elsewhere = Home(Path((asked / "location").read_text().strip()))
    except FileNotFoundError:
        return None
    # A cleaned temporary folder may come back with the same name and another owner.
    ours = elsewhere.state_file.exists() and elsewhere.path.lstat().st_uid == asked.stat().st_uid
    return elsewhere if ours else None


def create_home(asked: Path, account: Account) -> Home:
    """Make a home that the account can enter, in another place if necessary: foreign folders are never opened to it.

    Raises EmbeddedError if the account can enter no temporary folder.
    """
    home = Home(asked)
    if not account.can_enter(asked):
        base = next(
            (base for base in ("/var/tmp", tempfile.gettempdir(), "/tmp") if account.can_enter(Path(base))), None
        )
        if base is None:
            raise EmbeddedError(
                f"The user {account.name} cannot enter {asked} nor a temporary folder: set PGQUEUE_EMBEDDED_DIR."
            )
        home = Home(Path(tempfile.mkdtemp(prefix="pgqueue-", dir=base)))
        home.path.chmod(0o711)  # the account can pass; its data directory inside is closed to all other users
        write_privately(asked / "location", f"{home.path}\n")
    home.save(home.with_socket_dir(ClusterState(), account))
    return home


@contextmanager
def cluster_lock(asked: Path, *, timeout_seconds: float = 150.0) -> Iterator[None]:
    """Let one process at a time start, stop or destroy the cluster; the kernel frees the lock of a process that dies.

    ``timeout_seconds``: how long to wait for the lock. Raises EmbeddedError after that.
    """
    check_path(asked)
    lock, deadline = asked / "lock", time.monotonic() + timeout_seconds
    while True:
        asked.mkdir(parents=True, mode=0o711 if os.geteuid() == 0 else 0o700, exist_ok=True)
        try:
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            continue  # destroyed between these two lines
        try:
            _lock_until(descriptor, deadline, lock)
            # `destroy` removes the file: a lock on a removed file protects nothing.
            if _is_file(lock, descriptor):
                _give_to_owner_of_folder(lock)
                yield
                return
        finally:
            os.close(descriptor)


def check_path(path: Path) -> None:
    """Raise EmbeddedError for a path that a shell command of pg_ctl would misread."""
    if special := SHELL_SPECIAL.intersection(str(path)):
        found = "".join(sorted(special))
        raise EmbeddedError(f"The path {str(path)!r} has {found!r}, on which pg_ctl fails: set PGQUEUE_EMBEDDED_DIR.")


def write_privately(path: Path, text: str) -> None:
    """Replace a file in one step, readable for its owner only."""
    partial = path.with_name(f"{path.name}.partial")
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    _give_to_owner_of_folder(partial)
    partial.rename(path)


def _give_to_owner_of_folder(path: Path) -> None:
    # If root works in the folder of a user, that user must still be able to use the file.
    if os.geteuid() == 0:
        owner = path.parent.stat()
        os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)


def _lock_until(descriptor: int, deadline: float, lock: Path) -> None:
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise EmbeddedError(
                    f"Another process holds {lock} for too long: it starts or stops the server. Try again, or end it."
                ) from None
            time.sleep(0.05)


def _is_file(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _fits(folder: Path) -> bool:
    # A comma in a host means several hosts to libpq.
    return len(os.fsencode(folder / f".s.PGSQL.{PORT}")) <= LONGEST_SOCKET_BYTES and "," not in str(folder)


def _is_private(folder: Path, account: Account) -> bool:
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == account.uid and not found.st_mode & 0o077
