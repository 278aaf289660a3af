"""A real PgBouncer in transaction mode, as an unprivileged account on loopback."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

import psycopg
import pytest

from tests.support.proxy import Proxy
from tests.support.waiting import eventually

POOL_SIZE = 4
# The server listens on a socket that is closed to the pooler's account: it goes through a proxy of ours.
CONFIGURATION = """
[databases]
* = host=127.0.0.1 port={server} user={user}{password}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {pool_size}
max_client_conn = 200
"""


@contextmanager
def transaction_pooler(url: str) -> Iterator[str]:
    """In front of the server of ``url``; gives the URL of the same database through the pooler."""
    parts = urlsplit(url)
    port = free_port()
    with Proxy(url) as proxy, tempfile.TemporaryDirectory(prefix="pgqueue-pooler-") as folder:
        file = Path(folder) / "pgbouncer.ini"
        file.write_text(
            CONFIGURATION.format(
                server=proxy.port,
                user=unquote(parts.username or "postgres"),
                password=f" password='{unquote(parts.password)}'" if parts.password else "",
                port=port,
                pool_size=POOL_SIZE,
            )
        )
        account = {}
        if os.geteuid() == 0:  # PgBouncer refuses to run as root
            nobody = pwd.getpwnam("nobody")
            os.chown(folder, nobody.pw_uid, nobody.pw_gid)
            os.chown(file, nobody.pw_uid, nobody.pw_gid)
            account = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        log = file.with_name("log").open("w+")
        process = subprocess.Popen([program(), str(file)], stdout=log, stderr=log, cwd="/", **account)
        through = f"postgresql://{parts.username or 'postgres'}@127.0.0.1:{port}{parts.path}"
        try:
            eventually(lambda: answers(through))
            yield through
        finally:
            process.terminate()
            process.wait(10)
            log.seek(0)
            print(log.read()[-3000:])
            log.close()


def program() -> str:
    found = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if found is None:
        pytest.fail("pgbouncer is missing, without which the pooler cannot be tested: make tools")
    return found


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def answers(url: str) -> bool:
    try:
        with psycopg.connect(url) as session:
            return session.execute("SELECT 1").fetchone() == (1,)
    except psycopg.OperationalError:
        return False
