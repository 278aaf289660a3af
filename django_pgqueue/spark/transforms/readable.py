"""Shorten Spark's error about a file that it cannot read to one line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import unquote

from django_pgqueue.spark.errors import refused_by_disk, unreadable

UNREADABLE = re.compile(
    r"(?:FAILED_READ_FILE|CANNOT_READ_FILE_FOOTER|PATH_NOT_FOUND)\b.*?(?:file:/{0,2})?(/[^/]\S*\.parquet)", re.S
)


@contextmanager
def unreadable_as_pipeline_errors() -> Iterator[None]:
    """Raise PipelineError when Spark cannot read a file of the lake, with its name, or the disk refuses a write."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        if found := UNREADABLE.search(str(error)):
            raise unreadable(unquote(found[1])) from None
        raise refused_by_disk(error) or error from None
