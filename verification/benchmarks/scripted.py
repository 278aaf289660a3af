"""Another queue that is functions in SQL, so that pgbench can drive it beside ours: pgmq, on one channel."""

from __future__ import annotations

from .cluster import Cluster
from .design import HERE, Design
from .peers.environments import PipEnvironment

NAME = "pgmq"
# The package brings the extension's SQL, which needs no right to install an extension.
ENVIRONMENT = PipEnvironment(("pgmq==1.1.4",))
NO_TENANTS = "left out: a queue of it has no tenants"


def install(cluster: Cluster, database: str) -> None:
    with cluster.connect(database) as connection:
        connection.execute(ENVIRONMENT.file("pgmq/sql/pgmq.sql").read_text())
        connection.execute("SELECT pgmq.create('benchmark')")


ARCHIVE = Design(NAME, HERE / "scripts" / "pgmq", install)
DELETE = Design(f"{NAME}_delete", HERE / "scripts" / "pgmq_delete", install, like=ARCHIVE)


def present() -> tuple[Design, ...]:
    return (ARCHIVE, DELETE) if ENVIRONMENT.installed() else ()


def version() -> str:
    """Return the version of the SQL, and of the package that brings it."""
    return f"{ENVIRONMENT.file('pgmq/sql/VERSION').read_text().strip()}, from the package {ENVIRONMENT.version()}"


def absent(channels: int = 1) -> dict[str, str]:
    """Return why pgmq is not measured, for the table; nothing if it can be."""
    if channels > 1:
        return {NAME: NO_TENANTS}
    if not ENVIRONMENT.installed():
        return {NAME: "NOT INSTALLED: python -m verification.benchmarks peers --install"}
    return {}
