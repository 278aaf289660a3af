"""Export the new rows of the archive, the dead letters and the channels to the lake, each row once."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, date
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from django_pgqueue.spark import schema
from django_pgqueue.spark.export import register
from django_pgqueue.spark.export.archive import check_unchanged
from django_pgqueue.spark.export.horizon import Horizon, HorizonHolder, find_holder
from django_pgqueue.spark.export.losses import find_losses
from django_pgqueue.spark.export.plan import ExportPlan, make_plan
from django_pgqueue.spark.export.repair import Repair, find_repair
from django_pgqueue.spark.export.task import FEW_RANGES, ExportOptions, ExportResult, perform
from django_pgqueue.spark.lake import Lake, StagedFile
from django_pgqueue.spark.lake.files import HORIZON, state_of
from django_pgqueue.spark.lake.rows import open_writer
from django_pgqueue.spark.lake.writing import Writing, check_log
from django_pgqueue.spark.session import run_tasks, session
from django_pgqueue.spark.source import Source


@dataclass(frozen=True, slots=True)
class Summary:
    """The result of an export: rows by table, the files, and the warnings for the operator."""

    rows: dict[str, int] = field(default_factory=dict)
    files: int = 0
    bytes: int = 0
    seconds: float = 0.0
    holder: HorizonHolder | None = None
    repaired: tuple[date, ...] = ()
    losses: tuple[str, ...] = ()
    warning: str = ""


def export(source: Source, path: Path, options: ExportOptions | None = None) -> Summary:
    """Bring all rows below the horizon that the lake does not have. Raises PipelineError; then the lake is
    unchanged.
    """
    options = options or ExportOptions()
    began = time.monotonic()
    identity = source.identity()
    lake = Lake.open(path, create=True)
    with lake.writing() as writing:
        for table in schema.DAYS:
            check_log(lake, table)
        new, state = not lake.exported(), state_of(writing.table("archive"))
        register.check_identity(lake, identity, adopt=options.adopt)
        without = lake.description.without if options.without is None else options.without
        lake.describe(system_identifier=identity[0], database=identity[1], without=without)
        with source.connect() as connection, source.errors():
            register.check_remembered(connection, lake, adopt=options.adopt)
            repair = find_repair(source, connection, lake) if options.rescan else Repair()
            plan = make_plan(
                connection, state, lake.horizons, without=without, missing=repair.missing,
                range_bytes=options.range_bytes,
            )  # fmt: skip
            register.check_horizon(lake, plan.horizon)
            holder = find_holder(connection, plan.horizon)
        results = _read(plan, source, writing, options)
        with source.connect() as connection, source.errors():
            check_unchanged(connection, plan.partitions)
            lost = register.remembered(connection, lake)[1]
        files = [file for result in results for file in result.files]
        if state.get("channel_digest") != plan.channel_digest:
            files.append(take_snapshot(source, plan.channel_query, writing, plan.horizon))
        losses = (*find_losses(plan, results, state, lost), *repair.losses())
        _commit(writing, plan, files, state, lost, repair, reported=bool(losses))
    return Summary(
        rows={table: sum(file.rows for file in files if file.table == table) for table in schema.SOURCES},
        files=len(files),
        bytes=sum(file.bytes for file in files),
        seconds=time.monotonic() - began,
        holder=holder,
        repaired=repair.days,
        losses=losses,
        warning=register.report_export(source, lake, new=new),
    )


def _read(plan: ExportPlan, source: Source, writing: Writing, options: ExportOptions) -> list[ExportResult]:
    """Run the tasks of a plan: on Spark if they read much, or a master is given. Raises PipelineError."""
    read = partial(perform, source=source, folder=writing.folder)
    few = sum(task.bytes for task in plan.tasks) <= FEW_RANGES * options.range_bytes
    if not plan.tasks or (options.master is None and few):
        return run_tasks(None, plan.tasks, read)
    with session("pgqueue export", options.master, options.memory, options.conf) as spark:
        return run_tasks(spark, plan.tasks, read)


def take_snapshot(source: Source, query: str, writing: Writing, horizon: Horizon) -> StagedFile:
    """Write all channels to a new file of the lake, with the time of the horizon in each row."""
    path = writing.stage("channel", f"day={horizon.now.date()}")
    columns = schema.arrow_schema("channel")
    with open_writer(path, columns) as writer:
        for batch in source.read([query], columns):
            at = pa.array([horizon.now] * batch.num_rows, schema.TIME)
            writer.write_batch(batch.set_column(0, columns.field(0), at))
    return writing.staged(path)


def _commit(
    writing: Writing,
    plan: ExportPlan,
    files: list[StagedFile],
    before: dict[str, Any],
    lost: dict[str, int],
    repair: Repair,
    *,
    reported: bool,
) -> None:
    """Commit the files, unless nothing is new: an idle queue makes one commit a day, so that ``exported_at`` goes on.

    Each table has the horizon up to which it has all rows. The archive is committed last, and its horizon is that of
    the lake: after a kill in between, the next export reads from each table what it lacks.
    ``before``: the state after the last export. ``lost``: by day, the messages that the database has dropped before the
    lake had them. ``reported``: the export has reported losses, and the next one must not repeat them.
    """
    state = {
        **plan.closing.as_state(),
        "channel_digest": plan.channel_digest,
        "open_days": plan.open_days,
        "lost": lost or before.get("lost", {}),
    }
    now = plan.horizon.now.astimezone(UTC)
    removed = repair.removed(writing.lake)
    same_day = before.get("exported_at", "")[:10] == f"{now.date()}"
    same = state == {name: before.get(name) for name in state}
    if not files and not removed and not reported and same_day and same:
        return
    state["exported_at"] = now.isoformat()
    rewritten = repair.rewritten(writing)
    for table in ("channel", "dead_letter", "archive"):
        new = [file for file in (*files, *rewritten) if file.table == table]
        old = [file for file in removed if file.table == table]
        if new or old or table == "archive":
            writing.commit(
                table,
                "export",
                new,
                old,
                transaction=(HORIZON, max(plan.horizon.xid, writing.lake.exported(table))),
                state=state if table == "archive" else None,
            )
