"""The page of the data source: its examples run, its options are those that there are."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from django_pgqueue.spark.datasource.encoding import COLUMNS
from django_pgqueue.spark.datasource.options import ReadOptions, StreamOptions, WriteOptions
from django_pgqueue.spark.datasource.tables import TABLES
from django_pgqueue.spark.errors import PipelineError
from tests.support.markdown import DOCS, blocks, page, section

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = "docs/reference/spark-datasource.md"


def words(text: str) -> set[str]:
    """Return the names in the first columns of a section's tables."""
    cells = re.findall(r"^\| (`[^|]+`) \|", text, re.MULTILINE)
    return {word for cell in cells for word in re.findall(r"`(\w+)`", cell)}


def options(read: Callable[[dict[str, str]], object]) -> set[str]:
    """Return all options of `read`, from its error about an unknown one."""
    with pytest.raises(PipelineError) as caught:
        read({"source": "", "another": ""})
    return set(re.split(r", | ", str(caught.value).partition("there are ")[2].rstrip("."))) - {"source"}


def test_every_option_and_column_is_there() -> None:
    text = page(PAGE)

    assert words(section(text, "Read")) == options(ReadOptions.of)
    assert words(section(text, "Read a stream")) == options(StreamOptions.of)
    written = words(section(text, "Columns to write"))
    assert written == {*COLUMNS, *options(WriteOptions.of)}
    for column in TABLES["message"].columns:
        assert f"`{column.name}`" in section(text, "Read")


@pytest.mark.timeout(1200)
def test_the_examples_run(
    spark: SparkSession,
    dsn: str,
    database: psycopg.Connection[Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The functions that ask the database from this process read it; the processes of the session do not have it.
    monkeypatch.setenv("PGQUEUE_SOURCE", dsn)
    names = {"spark": spark, "folder": str(tmp_path)}
    for block in blocks(DOCS / "reference" / "spark-datasource.md"):
        if "spark" in block.words:
            # The session of all tests has been started without the variable.
            code = block.text.replace('format("pgqueue")', f'format("pgqueue").option("source", {dsn!r})')
            exec(compile("\n" * (block.line - 1) + code, PAGE, "exec"), names)

    counts = database.execute(
        "SELECT (SELECT count(*) FROM pgqueue_archived_message), (SELECT count(*) FROM pgqueue_message)"
    ).fetchone()
    assert counts == (1001, 1001)
