"""Export the new rows of the archive, the dead letters and the channels to the lake, each row once."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, date
from pathlib import Path

from django_pgqueue.spark import schema
from django_pgqueue.spark.errors import PipelineError
from django_pgqueue.spark.export import register
from django_pgqueue.spark.export.archive import check_unchanged
from django_pgqueue.spark.export.channels import take_snapshot
from django_pgqueue.spark.export.engine import run_tasks
from django_pgqueue.spark.export.horizon import HorizonHolder, find_holder
from django_pgqueue.spark.export.losses import find_losses
from django_pgqueue.spark.export.options import ExportOptions
from django_pgqueue.spark.export.plan import ExportPlan, make_plan
from django_pgqueue.spark.export.repair import Repair, find_repair, without_conflicts
from django_pgqueue.spark.export.task import ExportResult, Written
from django_pgqueue.spark.lake import ParquetLake, StagedFile
from django_pgqueue.spark.lake.writing import Writing
from django_pgqueue.spark.progress import Progress
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
    lake = ParquetLake.open(path, create=True)
    with lake.writing() as writing:
        new = lake.head.number == 0
        register.check_identity(lake, identity, adopt=options.adopt)
        without = lake.description.without if options.without is None else options.without
        lake.describe(system_identifier=identity[0], database=identity[1], without=without)
        with source.connect() as connection, source.errors():
            register.check_remembered(connection, lake, adopt=options.adopt)
            repair = find_repair(source, connection, lake) if options.rescan else None
            plan = make_plan(
                connection,
                lake.state,
                without=without,
                missing=repair.missing if repair else None,
                range_bytes=options.range_bytes,
            )
            register.check_horizon(lake, plan.horizon)
            holder = find_holder(connection, plan.horizon)
        results = _read(plan, source, writing, options)
        with source.connect() as connection, source.errors():
            check_unchanged(connection, plan.partitions)
            lost = register.lost_rows(connection, lake)
        files = [_staged(file) for result in results for file in result.files]
        if lake.state.get("channel_digest") != plan.channel_digest:
            files.append(take_snapshot(source, plan.channel_query, writing, plan.horizon))
        losses = list(find_losses(plan, results, lake.state, lost))
        losses += repair.losses() if repair else ()
        _commit(lake, writing, plan, files, lost, repair, reported=bool(losses))
    return Summary(
        rows={table: sum(file.rows for file in files if file.table == table) for table in schema.SOURCES},
        files=len(files),
        bytes=sum(file.bytes for file in files),
        seconds=time.monotonic() - began,
        holder=holder,
        repaired=repair.days if repair else (),
        losses=tuple(losses),
        warning=register.report_export(source, lake, new=new),
    )


def _read(plan: ExportPlan, source: Source, writing: Writing, options: ExportOptions) -> list[ExportResult]:
    progress = Progress(len(plan.tasks))
    try:
        results = run_tasks(plan.tasks, source, str(writing.folder), progress, options)
    finally:
        progress.end()
    for result in results:
        if result.failure:
            raise PipelineError(result.failure)
    return results


def _staged(file: Written) -> StagedFile:
    more = {"created_days": [day.isoformat() for day in file.created_days]}
    return StagedFile(file.table, f"day={file.day}", Path(file.path), file.rows, file.bytes, file.sha256, more)


def _commit(
    lake: ParquetLake,
    writing: Writing,
    plan: ExportPlan,
    files: list[StagedFile],
    lost: dict[str, int],
    repair: Repair | None,
    *,
    reported: bool,
) -> None:
    """Commit the files, unless nothing is new: an idle queue makes one commit a day, so that ``exported_at`` goes on.

    ``lost``: by day, the messages that the database has dropped before the lake had them. ``reported``: the export has
    reported losses, and the next one must not repeat them.
    """
    before = lake.state
    state = {
        **plan.closing.as_state(),
        "channel_digest": plan.channel_digest,
        "open_days": plan.open_days,
        **({"lost": lost} if lost else {}),
        **({"rows": repair.rows(lake, files)} if repair else {}),
    }
    repair = repair or Repair()
    now = plan.horizon.now
    same_day = before.get("exported_at", "")[:10] == f"{now.astimezone(UTC).date()}"
    if (
        not files
        and not repair.lost
        and not repair.replaced
        and not reported
        and same_day
        and state == {name: before.get(name) for name in state}
    ):
        return
    state |= {"exported_xid": plan.horizon.xid, "exported_at": now.astimezone(UTC).isoformat()}
    files = [*files, *without_conflicts(writing, repair.compared)]
    keep = repair.kept(lake)
    writing.commit("export", files, replace=repair.replaced, state=state, keep=keep, lost=repair.lost)
