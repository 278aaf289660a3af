"""Tells a data catalogue what a command read and wrote: OpenLineage events, to a file or by HTTP.

https://openlineage.io/spec/2-0-2/OpenLineage.json describes them. The work never fails because of them: an event that
cannot be delivered is reported in one line on stderr.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.request
import uuid
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django_pgqueue.spark import schema
from django_pgqueue.spark.arguments import named_source, source_of
from django_pgqueue.spark.errors import PipelineError

PRODUCER = "urn:pgqueue-django"
SPECIFICATION = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
FACETS = "https://openlineage.io/spec/facets"
SEND_SECONDS = 5.0
MESSAGES = ("archive", "dead_letter")
LAKE = tuple(schema.TABLES)


@dataclass(frozen=True, slots=True)
class Flow:
    """The tables that a command reads and writes. Those of the database count if it has a source."""

    reads_database: Sequence[str] = ()
    reads_lake: Sequence[str] = ()
    writes_lake: Sequence[str] = ()
    writes_database: Sequence[str] = ()


FLOWS = {
    "export": Flow(reads_database=tuple(schema.SOURCES.values()), writes_lake=tuple(schema.SOURCES)),
    "rollup": Flow(
        reads_database=("pgqueue_message",),
        reads_lake=MESSAGES,
        writes_lake=("metrics", "forecast"),
        writes_database=("pgqueue_queue_metric", "pgqueue_backlog_forecast"),
    ),
    "compact": Flow(reads_lake=LAKE, writes_lake=LAKE),
    "erase": Flow(reads_lake=LAKE, writes_lake=LAKE),
    "publish": Flow(reads_lake=LAKE),
    "report": Flow(reads_lake=("metrics", "forecast")),
    "redrive": Flow(reads_database=("pgqueue_dead_letter",), writes_database=("pgqueue_message",)),
}
# These take the database from the variables of libpq, too.
ALWAYS_A_SOURCE = ("export", "redrive")


@contextmanager
def lineage(command: str, args: Namespace) -> Iterator[LineageRun]:
    """Send the events of one run to ``args.lineage``: START, then COMPLETE, FAIL or ABORT.

    The caller sets ``status`` of the run that is yielded: the exit status of the command.
    """
    run = LineageRun(command, args)
    run.send("START")
    try:
        yield run
    except PipelineError as error:
        run.send("FAIL", str(error))
        raise
    except Exception as error:
        # The text of a foreign error may hold anything.
        run.send("FAIL", type(error).__name__)
        raise
    except BaseException:
        run.send("ABORT")
        raise
    if run.status:
        run.send("FAIL", f"The command ended with the exit status {run.status}.")
    else:
        run.send("COMPLETE")


@dataclass(slots=True)
class LineageRun:
    """One run of a command, as its events describe it."""

    command: str
    args: Namespace
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    before: dict[str, set[Any]] = field(default_factory=dict)
    status: int = 0

    def __post_init__(self) -> None:
        self.before = self.present()

    def send(self, kind: str, problem: str = "") -> None:
        """Deliver an event of this kind; ``problem``: why the run failed."""
        try:
            deliver(self.args.lineage, self.event(kind, problem))
        except (OSError, ValueError, PipelineError) as error:
            print(f"The lineage event {kind} was not delivered to {shown(self.args.lineage)}: {error}", file=sys.stderr)

    def event(self, kind: str, problem: str = "") -> dict[str, Any]:
        """Return the event as the specification has it, with what the run has written so far."""
        flow = FLOWS[self.command]
        ended = kind == "COMPLETE"
        return {
            "eventType": kind,
            "eventTime": datetime.now(UTC).isoformat(),
            "producer": PRODUCER,
            "schemaURL": SPECIFICATION,
            "run": {"runId": self.id, "facets": {"errorMessage": error_facet(problem)} if problem else {}},
            "job": {
                "namespace": os.environ.get("OPENLINEAGE_NAMESPACE", "pgqueue"),
                "name": f"pgqueue.lake.{self.command}",
            },
            "inputs": [*self.of_database(flow.reads_database), *self.of_lake(flow.reads_lake)],
            "outputs": [
                *self.of_lake(flow.writes_lake, self.written() if ended else {}),
                *self.of_database(flow.writes_database),
            ],
        }

    def of_database(self, tables: Sequence[str]) -> list[dict[str, Any]]:
        """Return the datasets of tables of the database, if the command has one."""
        source = source_of(self.args) if self.command in ALWAYS_A_SOURCE else None
        if source is None and hasattr(self.args, "source"):
            source = named_source(self.args)
        if source is None:
            return []
        given = dict(source.parameters)
        server = f"{given.get('host', 'localhost')}:{given.get('port', '5432')}"
        database = given.get("dbname") or given.get("service") or given.get("user", "")
        return [{"namespace": f"postgres://{server}", "name": f"{database}.public.{table}"} for table in tables]

    def of_lake(self, tables: Sequence[str], written: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """Return the datasets of tables of the lake, with their columns. ``written``: what the run added to them."""
        path = getattr(self.args, "lake", None)
        if path is None:
            return []
        folder = Path(path).resolve()
        return [
            {
                "namespace": "file",
                "name": f"{folder}/{table}",
                "facets": {"schema": schema_facet(table)},
                **({"outputFacets": {"outputStatistics": written[table]}} if written and table in written else {}),
            }
            for table in tables
        ]

    def written(self) -> dict[str, Any]:
        """Return the rows and bytes that the run has committed, by table of the lake."""
        counts: dict[str, Any] = {}
        for table, files in self.present().items():
            for file in files - self.before.get(table, set()):
                facet = counts.setdefault(table, statistics_facet())
                facet["rowCount"] += file.rows
                facet["size"] += file.bytes
        return counts

    def present(self) -> dict[str, set[Any]]:
        """Return the files of the lake by table; {} if there is no lake yet, or it cannot be read."""
        from django_pgqueue.spark.lake import Lake

        path = getattr(self.args, "lake", None)
        try:
            lake = None if path is None else Lake.open(path)
            return {} if lake is None else {table: {*lake.files(table)} for table in LAKE}
        except PipelineError:
            return {}


def facet(name: str, version: str, **content: Any) -> dict[str, Any]:
    """Return a facet with the addresses that each has."""
    kind = f"{name[0].upper()}{name[1:]}"
    return {"_producer": PRODUCER, "_schemaURL": f"{FACETS}/{version}/{kind}.json#/$defs/{kind}", **content}


def schema_facet(table: str) -> dict[str, Any]:
    """Return the columns of a table of the lake."""
    fields = [{"name": column.name, "type": str(column.type)} for column in schema.TABLES[table]]
    return facet("schemaDatasetFacet", "1-1-1", fields=fields)


def statistics_facet() -> dict[str, Any]:
    """Return a count of nothing."""
    return facet("outputStatisticsOutputDatasetFacet", "1-0-2", rowCount=0, size=0)


def error_facet(problem: str) -> dict[str, Any]:
    """Return why a run failed."""
    return facet("errorMessageRunFacet", "1-0-1", message=problem, programmingLanguage="PYTHON")


def deliver(target: str, event: dict[str, Any]) -> None:
    """Append the event to a file, as a line, or send it to an address. Raises OSError or ValueError."""
    content = json.dumps(event, ensure_ascii=False)
    if not target.startswith(("http://", "https://")):
        with open(target, "a", encoding="utf-8") as file:
            file.write(f"{content}\n")
        return
    headers = {"Content-Type": "application/json"}
    if key := os.environ.get("OPENLINEAGE_API_KEY"):
        headers["Authorization"] = f"Bearer {key}"
    request = urllib.request.Request(target, content.encode(), headers, method="POST")
    with urllib.request.urlopen(request, timeout=SEND_SECONDS):
        pass


def shown(target: str) -> str:
    """Return a file, or the host of an address: the rest may hold a secret."""
    return urlsplit(target).hostname or "?" if target.startswith(("http://", "https://")) else target
