"""Each record is one line of JSON, with its extra fields and without secrets."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from io import StringIO
from typing import Any

import pytest

from django_pgqueue.contrib.json_log import JsonFormatter

STANDARD = {"at", "level", "logger", "message"}


@pytest.fixture
def written() -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """The lines that the loggers of the queue have written."""
    stream = StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    logger = logging.getLogger("django_pgqueue")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    logger.removeHandler(handler)
    logger.setLevel(before)


def test_a_record_has_its_time_and_its_extra_fields(written: Callable[[], Any]) -> None:
    logging.getLogger("django_pgqueue.worker").info("%d given\nback", 2, extra={"event": "given_back", "message_id": 7})
    [line] = written()
    assert line.keys() == STANDARD | {"event", "message_id"}
    assert (line["level"], line["logger"]) == ("info", "django_pgqueue.worker")
    assert (line["message"], line["event"], line["message_id"]) == ("2 given\\nback", "given_back", 7)
    assert abs((datetime.now(UTC) - datetime.fromisoformat(line["at"])).total_seconds()) < 60


def test_an_exception_is_redacted(written: Callable[[], Any]) -> None:
    try:
        raise ValueError("password=canary-7f3a")
    except ValueError:
        logging.getLogger("django_pgqueue.worker").exception("it failed")
    [line] = written()
    assert "ValueError: password=********" in line["exception"]
    assert "canary" not in str(line)


def test_a_value_that_is_not_json_is_written_as_text(written: Callable[[], Any]) -> None:
    logging.getLogger("django_pgqueue").warning("odd", extra={"given": {1, 2}.__class__})
    assert written()[0]["given"] == "<class 'set'>"
