"""LonnyMQ's own functions beside ours: channels with limits, one message a call, the channel's row locked by each verb.

No package registry has it, so it takes part where a checkout of its repository lies in `.pgqueue/peers/lonnymq`. Its
install script is TypeScript that prints SQL: esbuild bundles it, Node.js runs it.
"""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory

from .cluster import Cluster
from .design import HERE, Design
from .peers.environments import HOME, NpmEnvironment, run

NAME = "lonnymq"
CHECKOUT = HOME / NAME
ENVIRONMENT = NpmEnvironment(("esbuild@0.28.2",))
PRINT = "const {Queue} = require('./bundle.cjs'); console.log(new Queue({schema: 'lonnymq'}).install().join('\\n'))"
# Its own clock adds the seconds of the minute twice, so it jumps back by a minute once a minute, and what was enqueued
# just before waits for that long. Only the formula is another one here.
CLOCK = """
CREATE OR REPLACE FUNCTION lonnymq.epoch() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    v_now timestamptz;
BEGIN
    v_now := now();
    RETURN floor(extract(epoch FROM v_now) * 1000)::bigint;
END
$$
"""


def has_checkout() -> bool:
    return (CHECKOUT / "src" / "index.ts").exists()


def rendered() -> str:
    """Return the SQL that its install script prints.

    Raises RuntimeError with what esbuild or Node.js said, if one of them fails.
    """
    with TemporaryDirectory() as folder:
        bundle = ("--bundle", "--platform=node", "--format=cjs", "--log-level=error", f"--outfile={folder}/bundle.cjs")
        run(str(ENVIRONMENT.modules / ".bin" / "esbuild"), "src/index.ts", *bundle, folder=CHECKOUT)
        printed = run(ENVIRONMENT.interpreter, "-e", PRINT, folder=Path(folder))
    # PostgreSQL 15 reads no 1_000.
    return re.sub(r"(?<=\d)_(?=\d{3}\b)", "", printed)


def install(cluster: Cluster, database: str) -> None:
    with cluster.connect(database) as connection:
        connection.execute("CREATE SCHEMA lonnymq")
        connection.execute(rendered())
        connection.execute(CLOCK)


LONNYMQ = Design(NAME, HERE / "scripts" / NAME, install)


def present() -> tuple[Design, ...]:
    return (LONNYMQ,) if has_checkout() and ENVIRONMENT.installed() else ()


def version() -> str:
    """Return the commit of the checkout."""
    return run("git", "log", "-1", "--format=%h of %cs", folder=CHECKOUT).strip()


def absent() -> dict[str, str]:
    """Return why it is not measured, as a line of the table."""
    if present():
        return {}
    if not has_checkout():
        return {NAME: "NO CHECKOUT of its repository in .pgqueue/peers/lonnymq"}
    return {NAME: "NOT INSTALLED: python -m verification.benchmarks peers --install"}
