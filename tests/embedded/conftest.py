from __future__ import annotations

import os
import pickle
import pwd
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from django_pgqueue.embedded import Binaries, Cluster, EmbeddedError, find_all
from django_pgqueue.embedded.temporary import THROWAWAY

# Tests that only root can run are in a module of their own.
collect_ignore = [] if os.geteuid() == 0 else ["test_as_root.py"]

PREAMBLE = """
from sys import argv
from django_pgqueue.embedded import *
from django_pgqueue.embedded.temporary import THROWAWAY
"""
NEWEST_OF_EACH_SOURCE = {binaries.source: binaries for binaries in reversed(find_all())}.values()


@pytest.fixture(params=NEWEST_OF_EACH_SOURCE, ids=lambda binaries: f"{binaries.source}-{binaries.major}")
def binaries(request: pytest.FixtureRequest) -> Binaries:
    return request.param


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short folder that the server's account can enter (pytest's tmp_path is closed, which is a case of its own)."""
    path = Path(tempfile.mkdtemp(prefix="pgq-"))
    path.chmod(0o711)
    yield path
    for lock in list(path.rglob("lock")):
        Cluster(lock.parent).destroy()
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def make(folder: Path) -> Callable[..., Cluster]:
    """A cluster, not started, without fsync."""

    def make(at: Path | str = folder, **options: Any) -> Cluster:
        return Cluster(at, **{"settings": THROWAWAY, **options})

    return make


@pytest.fixture
def in_python() -> Callable[..., subprocess.Popen[str]]:
    """Runs statements in another process: `in_python("statements", *arguments)`, after PREAMBLE."""

    def in_python(statements: str, *arguments: object) -> subprocess.Popen[str]:
        script = f"{PREAMBLE}\n{statements}"
        command = [sys.executable, "-c", script, *map(str, arguments)]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    return in_python


def query(cluster: Cluster, statement: str, database: str = "postgres") -> Any:
    """The one value that a statement returns."""
    with psycopg.connect(cluster.url(database), autocommit=True) as session:
        done = session.execute(statement)
        return done.fetchone()[0] if done.description else None


def as_user(name: str, function: Callable[[], Any]) -> Any:
    """The result of a function in a process of another user; its EmbeddedError or OSError is raised here."""
    entry = pwd.getpwnam(name)
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        try:
            os.setgroups([])
            os.setgid(entry.pw_gid)
            os.setuid(entry.pw_uid)
            try:
                result = function()
            except (EmbeddedError, OSError) as error:
                result = error
            os.write(writer, pickle.dumps(result))
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader, "rb") as pipe:
        result = pickle.loads(pipe.read())
    if isinstance(result, Exception):
        raise result
    return result
