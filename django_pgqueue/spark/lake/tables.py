"""The tables of a lake as readers and the writer see them: files, versions, and what the last export has noted."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from django_pgqueue.spark import schema
from django_pgqueue.spark.errors import PipelineError
from django_pgqueue.spark.lake import durable
from django_pgqueue.spark.lake.files import HORIZON, LakeFile, files_of, state_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CONTROL = "_pgqueue"


@dataclass(frozen=True, slots=True)
class LakeDescription:
    """The content of lake.json.

    ``name`` identifies the lake for the database, wherever it is moved to; ``system_identifier`` and ``database`` are
    those of the database whose rows it holds, empty until the first export.
    """

    format: int
    name: str
    created_at: str
    system_identifier: str = ""
    database: str = ""
    without: tuple[str, ...] = ()


class LakeTables:
    """The part of a lake that readers and the writer share. Each read sees the newest version."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def control(self) -> Path:
        return self.path / CONTROL

    @property
    def staging(self) -> Path:
        return self.control / "staging"

    @property
    def description(self) -> LakeDescription:
        """Read ``lake.json``. Raises PipelineError if it is damaged, or of another format than this version knows."""
        content = self.note("lake")
        if (found := content.get("format", 0)) != schema.FORMAT:
            raise PipelineError(
                f"The lake in {self.path} has format {found}, this version knows {schema.FORMAT}: "
                "use the version of pgqueue-django that wrote it, or export to a new lake."
            )
        try:
            return LakeDescription(**(content | {"without": tuple(content.get("without", ()))}))
        except TypeError as error:
            raise _damaged(self.control / "lake.json", error) from None

    def describe(self, **changes: Any) -> None:
        """Change lake.json. Only the writer of the lake may call this."""
        described = asdict(replace(self.description, **changes))
        if described != asdict(self.description):
            durable.replace(self.control / "lake.json", json.dumps(described, indent=1))

    def note(self, name: str) -> dict[str, Any]:
        """Read a JSON file of the control folder. Raises PipelineError if it is missing or has anything else."""
        path = self.control / f"{name}.json"
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise _damaged(path, error) from None
        if not isinstance(content, dict):
            raise _damaged(path, "no JSON object")
        return content

    def delta(self, table: str, version: int | None = None) -> DeltaTable:
        """Open a table, in its newest version or in an earlier one. Raises PipelineError when it cannot be read."""
        try:
            return DeltaTable(self.path / table, version=version)
        except TableNotFoundError:
            raise PipelineError(
                f"{self.path / table} has lost its log: restore the folder _delta_log from a backup. Without one, "
                "export to a new lake, and keep this folder: it may have rows that the database does not have any more."
            ) from None
        except (DeltaError, OSError) as error:
            raise _damaged(self.path / table / "_delta_log", error) from None

    def files(self, table: str, days: Collection[date] | None = None, version: int | None = None) -> list[LakeFile]:
        """Return the files of a table, in order, of some days (UTC) or of all. ``version``: as they were then."""
        return [file for file in files_of(self.delta(table, version), table) if days is None or file.day in days]

    def paths(self, table: str, days: Collection[date] | None = None) -> list[Path]:
        """Return the paths of the files of a table, of some days (UTC) or of all."""
        return [self.path / file.path for file in self.files(table, days)]

    @property
    def versions(self) -> dict[str, int]:
        """Return the newest version of each table."""
        return {table: self.delta(table).version() for table in schema.TABLES}

    def exported(self, table: str = "archive") -> int:
        """Return the horizon up to which a table has all rows; 0 before the first export.

        The archive's is that of the lake: an export commits it last.
        """
        return max(self.delta(name).transaction_version(HORIZON) or 0 for name in {"archive", table})

    @property
    def horizons(self) -> dict[str, int]:
        """Return `exported` of the archive and of the dead letters."""
        return {table: self.exported(table) for table in schema.DAYS}

    @property
    def state(self) -> dict[str, Any]:
        """Return what the last export has noted. Without it, the next one reads more than it has to."""
        return state_of(self.delta("archive"))

    @property
    def rows(self) -> dict[str, dict[str, int]]:
        """Return the number of archived messages and dead letters, by table and day."""
        counted: dict[str, dict[str, int]] = {}
        for table in schema.DAYS:
            for file in self.files(table):
                days = counted.setdefault(table, {})
                days[file.day.isoformat()] = days.get(file.day.isoformat(), 0) + file.rows
        return counted

    def read(self, spark: SparkSession, table: str, days: Collection[date] | None = None) -> DataFrame:
        """Read a table with all its columns and `day`; a file that lacks a column has NULL there."""
        from pyspark.sql.types import DateType, StructType

        columns = StructType([*schema.spark_schema(table).fields]).add("day", DateType())
        files = [str(path) for path in self.paths(table, days)]
        if not files:
            return spark.createDataFrame([], columns)
        return spark.read.schema(columns).option("basePath", str(self.path / table)).parquet(*files)

    def log(self, table: str, since: int) -> Iterator[list[dict[str, Any]]]:
        """Yield the actions of each version after ``since``. Raises FileNotFoundError if the log begins later."""
        for number in range(since + 1, self.delta(table).version() + 1):
            lines = (self.path / table / "_delta_log" / f"{number:020}.json").read_text(encoding="utf-8")
            yield [json.loads(line) for line in lines.splitlines() if line]


def _damaged(path: Path, error: object) -> PipelineError:
    reason = " ".join(str(error).split())
    return PipelineError(f"{path} cannot be read ({reason}): the lake is damaged, restore it from a backup.")
