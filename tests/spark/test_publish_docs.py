"""The program of the page that reads a published lake by its newest commit runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from django_pgqueue.spark.lake import Lake
from tests.spark.object_store import BUCKET, ObjectStore
from tests.spark.published import publish
from tests.spark.test_compact import add
from tests.support.markdown import DOCS, blocks


def test_the_program_that_reads_the_copy_runs(store: ObjectStore, lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Lake.open(lake, create=True)
    add(made, range(10))
    assert publish(made, store, "of-the-page") == 0
    [program] = [block.text for block in blocks(DOCS / "how-to/cluster.md") if "spark" in block.words]
    monkeypatch.setenv("AWS_ENDPOINT_URL", store.endpoint)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    names: dict[str, Any] = {}

    exec(program.replace("s3://shop-archive/lake", f"s3://{BUCKET}/of-the-page"), names)

    assert sorted(names["rows"]["id"].to_pylist()) == list(range(10))
