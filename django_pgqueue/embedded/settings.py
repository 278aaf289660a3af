"""Make the setting DATABASES: the server in DATABASE_URL, or else the embedded one."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from django_pgqueue.embedded.cluster import Cluster
from django_pgqueue.embedded.errors import EmbeddedError
from django_pgqueue.embedded.initdb import SUPERUSER

ENGINE = "django.db.backends.postgresql"
SCHEMES = ("postgres", "postgresql")
COMMAND = "embeddedpg"  # the command that manages the server must not find it started by its own settings


def databases(
    folder: str | Path, *, name: str = "pgqueue", binaries: str = "auto", start: bool | None = None
) -> dict[str, dict[str, Any]]:
    """Return the setting DATABASES: the server in the variable DATABASE_URL, or else the embedded one, after its start.

    folder     where the embedded server keeps its data; the variable PGQUEUE_EMBEDDED_DIR overrides it
    name       the database, created when missing
    binaries   "auto", "system", "wheel" or the absolute path of a bin folder; PGQUEUE_EMBEDDED_BINARIES overrides it
    start      default: yes, except for `manage.py embeddedpg …`

    Raises EmbeddedError, with a message of one line, when there is nothing to start or it does not start.
    """
    embedded = {
        "folder": os.environ.get("PGQUEUE_EMBEDDED_DIR") or str(folder),
        "binaries": os.environ.get("PGQUEUE_EMBEDDED_BINARIES") or binaries,
    }
    if url := os.environ.get("DATABASE_URL"):
        return {"default": {**parse_url(url), "EMBEDDED": {**embedded, "name": name}}}
    cluster = Cluster(embedded["folder"], binaries=embedded["binaries"])
    if start if start is not None else sys.argv[1:2] != [COMMAND]:
        if cluster.start():
            found = cluster.status()
            print(f"Embedded PostgreSQL {found.version} started, data in {found.data}", file=sys.stderr)
        cluster.ensure_database(name)
    return {
        "default": {
            "ENGINE": ENGINE,
            "NAME": name,
            "USER": SUPERUSER,
            "HOST": str(cluster.socket_dir()),
            "EMBEDDED": {**embedded, "name": name},
        }
    }


def parse_url(url: str) -> dict[str, Any]:
    """Return one entry of DATABASES from a URL in libpq's form; unknown parameters (sslmode, …) go to OPTIONS.

    Raises EmbeddedError for a URL that is not one of PostgreSQL, or that names no database.
    """
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES:
        # The value is not shown: it may hold a password.
        raise EmbeddedError("DATABASE_URL must look like postgresql://user:password@host:5432/name.")
    name = unquote(parts.path.removeprefix("/"))
    credentials, _, addresses = parts.netloc.rpartition("@")
    user, _, password = credentials.partition(":")
    hosts, ports = _hosts_and_ports(addresses)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    entry = {
        "ENGINE": ENGINE,
        "NAME": options.pop("dbname", name),
        "USER": options.pop("user", unquote(user)),
        "PASSWORD": options.pop("password", unquote(password)),
        "HOST": options.pop("host", hosts),
        "PORT": options.pop("port", ports),
    }
    if not entry["NAME"]:
        raise EmbeddedError("DATABASE_URL names no database: postgresql://user:password@host:5432/name")
    return {**entry, "OPTIONS": options} if options else entry


def _hosts_and_ports(addresses: str) -> tuple[str, str]:
    """Return hosts and ports; libpq takes several: `one:5432,two:5433` → ("one,two", "5432,5433")."""
    hosts, ports = [], []
    for address in addresses.split(","):
        bracket = address.rfind("]")
        host, _, port = address.rpartition(":") if address.rfind(":") > bracket else (address, "", "")
        hosts.append(unquote(host.strip("[]")))
        ports.append(port)
    return ",".join(hosts), ",".join(ports) if any(ports) else ""
