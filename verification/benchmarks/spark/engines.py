"""One question to a lake, by DuckDB, polars, pandas and Spark: how long it takes, with all that is started."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from django_pgqueue.spark.lake import Lake

from .increment import repeat
from .rollup import DAY, fill, run, summary

PER_DAY = 1_000_000
# Messages and the 95th percentile of their seconds from enqueue to end, by day and channel.
SQL = "SELECT day, channel, count(*) AS messages, {p95} AS p95 FROM rows GROUP BY day, channel"
DELTA = "import sys; from deltalake import DeltaTable; rows = DeltaTable(sys.argv[1])\n"
PROGRAMS = {
    "DuckDB": DELTA
    + "import duckdb; rows = rows.to_pyarrow_dataset()\n"
    + f"duckdb.sql({SQL.format(p95='quantile_cont(epoch(archived_at - created_at), 0.95)')!r}).fetchall()",
    "polars": "import sys; import polars as pl\n"
    "took = (pl.col('archived_at') - pl.col('created_at')).dt.total_microseconds()\n"
    "pl.scan_delta(sys.argv[1]).group_by('day', 'channel').agg(pl.len(), took.quantile(0.95)).collect()",
    "pandas": DELTA
    + "rows = rows.to_pandas(columns=['day', 'channel', 'created_at', 'archived_at'])\n"
    + "rows['took'] = (rows['archived_at'] - rows['created_at']).dt.total_seconds()\n"
    + "rows.groupby(['day', 'channel'])['took'].agg(['size', lambda took: took.quantile(0.95)])",
    "Spark": "import sys; from pathlib import Path\n"
    "from django_pgqueue.spark.lake import Lake; from django_pgqueue.spark.session import session\n"
    "with session('engines', memory='4g') as spark:\n"
    "    Lake.open(Path(sys.argv[1]).parent).read(spark, 'archive').createOrReplaceTempView('rows')\n"
    f"    spark.sql({SQL.format(p95='percentile(unix_micros(archived_at) - unix_micros(created_at), 0.95)')!r})"
    ".collect()",
}


def measure(rows: int, rounds: int) -> list[str]:
    """The lines of the report."""
    days = max(1, rows // PER_DAY)
    with tempfile.TemporaryDirectory(prefix="pgqueue-benchmark-") as folder:
        path = Path(folder) / "lake"
        fill(path, DAY, rows // days)
        repeat(Lake.open(path), days)
        lines = [f"messages and p95 by day and channel, of {rows:,} messages in {days:,} days, which are copies of one"]
        for name, program in PROGRAMS.items():
            lines.append(f"  {name}: {asked(program, path / 'archive', rounds)}")
    return lines


def asked(program: str, table: Path, rounds: int) -> str:
    """The summary of some runs, or that the program failed, as for want of memory."""
    try:
        return summary([run([sys.executable, "-c", program, str(table)]) for _ in range(rounds)])
    except SystemExit:
        return "failed"
