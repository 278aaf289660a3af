"""Make the setting DATABASES: the server in DATABASE_URL, or else the embedded one."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from django_pgqueue.embedded.binaries import EmbeddedError
from django_pgqueue.embedded.cluster import PORT, SUPERUSER, Cluster

ENGINE = "django.db.backends.postgresql"
KEYS = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host", "PORT": "port"}
SCHEMES = ("postgres://", "postgresql://")
COMMAND = "embeddedpg"  # the command that manages the server must not find it started by its own settings


def databases(folder: str | Path, *, name: str = "pgqueue", binaries: str = "auto") -> dict[str, dict[str, Any]]:
    """Return the setting DATABASES: the server in the variable DATABASE_URL, or else the embedded one, after its start.

    folder     where the embedded server keeps its data; the variable PGQUEUE_EMBEDDED_DIR overrides it
    name       the database, created when missing
    binaries   "auto", "system", "wheel" or the absolute path of a bin folder; PGQUEUE_EMBEDDED_BINARIES overrides it

    Raises EmbeddedError, with a message of one line, when there is nothing to start or it does not start.
    """
    embedded = {
        "folder": os.environ.get("PGQUEUE_EMBEDDED_DIR") or str(folder),
        "binaries": os.environ.get("PGQUEUE_EMBEDDED_BINARIES") or binaries,
        "name": name,
    }
    if url := os.environ.get("DATABASE_URL"):
        return {"default": {**parse_url(url), "EMBEDDED": embedded}}
    cluster = Cluster(embedded["folder"], binaries=embedded["binaries"])
    if sys.argv[1:2] != [COMMAND]:
        try:
            if cluster.start():
                print(f"Embedded PostgreSQL {cluster.version} started, data in {cluster.data}", file=sys.stderr)
        except OSError as error:
            raise EmbeddedError(f"The embedded server does not start: {error}") from error
        cluster.ensure_database(name)
    address = {"NAME": name, "USER": SUPERUSER, "HOST": str(cluster.data), "PORT": str(PORT)}
    return {"default": {"ENGINE": ENGINE, **address, "EMBEDDED": embedded}}


def parse_url(url: str) -> dict[str, Any]:
    """Return one entry of DATABASES from a URL in libpq's form; other parameters (sslmode, …) go to OPTIONS.

    Raises EmbeddedError for a URL that is not one of PostgreSQL, or that names no database.
    """
    try:
        options = conninfo_to_dict(url) if url.startswith(SCHEMES) else {}
    except psycopg.ProgrammingError:
        options = {}
    entry = {key: str(options.pop(name, "")) for key, name in KEYS.items()}
    if not entry["NAME"]:  # the value is not shown: it may hold a password
        raise EmbeddedError("DATABASE_URL must look like postgresql://user:password@host:5432/name.")
    return {"ENGINE": ENGINE, **entry, **({"OPTIONS": options} if options else {})}
