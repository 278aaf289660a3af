"""The program of the page that reads a published lake by its newest commit runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django_pgqueue.spark.lake import ParquetLake
from tests.spark.object_store import BUCKET, KEY, SECRET, ObjectStore
from tests.spark.published import publish
from tests.spark.test_compact import add
from tests.support.markdown import DOCS, blocks


def test_the_program_that_reads_the_newest_commit_runs(store: ObjectStore, lake: Path) -> None:
    made = ParquetLake.open(lake, create=True)
    add(made, range(10))
    assert publish(made, store, "of-the-page") == 0
    [program] = [block.text for block in blocks(DOCS / "how-to/cluster.md") if "spark" in block.words]
    url = f"s3://{KEY}:{SECRET}@{BUCKET}/of-the-page"
    address = store.endpoint.removeprefix("http://")
    names: dict[str, Any] = {}

    exec(program.replace("s3://shop-archive/lake", f"{url}?scheme=http&endpoint_override={address}"), names)

    assert sorted(names["rows"].to_table()["id"].to_pylist()) == list(range(10))
