"""Answers of a real store that a local one does not give by itself: overload, expiry in the middle, hidden keys."""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from django_pgqueue.spark.lake import Lake
from django_pgqueue.spark.publish import Target, open_target
from tests.spark.object_store import BUCKET, ObjectStore
from tests.spark.published import check_copy, ids_of, merge_all, publish
from tests.spark.test_compact import add

XML = "application/xml"
SLOW_DOWN = ("503 Slow Down", XML, b"<Error><Code>SlowDown</Code><Message>Please reduce your rate.</Message></Error>")
INTERNAL = ("500 Internal Server Error", XML, b"<Error><Code>InternalError</Code><Message>again</Message></Error>")
EXPIRED = ("400 Bad Request", XML, b"<Error><Code>ExpiredToken</Code><Message>expired</Message></Error>")
# S3 may have answered 200 before the copy, or the completion, fails.
# Larger than two parts of a multipart upload, whatever size the library chooses.
LARGE_BYTES = 22_000_000


@pytest.fixture
def target(store: ObjectStore, prefix: str) -> Target:
    return open_target(f"s3://{BUCKET}/{prefix}", store.endpoint)


@pytest.fixture
def large(tmp_path: Path) -> Path:
    path = tmp_path / "large"
    path.write_bytes(os.urandom(LARGE_BYTES))
    return path


def is_part(environ: dict[str, Any], number: int) -> bool:
    return f"partNumber={number}&" in environ["QUERY_STRING"]


@pytest.mark.parametrize("answer", [SLOW_DOWN, INTERNAL], ids=["503", "500"])
def test_a_store_that_is_overloaded_for_a_moment_is_asked_again(
    made: Lake, store: ObjectStore, prefix: str, tmp_path: Path, answer: tuple[str, str, bytes]
) -> None:
    asked: Counter[tuple[str, ...]] = Counter()

    def refuse(environ: dict[str, Any]) -> tuple[str, str, bytes] | None:
        """Refuse the requests for a file three times each."""
        request = tuple(environ[name] for name in ("REQUEST_METHOD", "PATH_INFO", "QUERY_STRING"))
        asked[request] += 1
        return answer if environ["PATH_INFO"].endswith(made.paths("archive")[1].name) and asked[request] <= 3 else None

    store.refuse = refuse
    assert publish(made, store, prefix) == 0
    assert max(asked.values()) > 3
    store.refuse = None
    check_copy(made, store, prefix, tmp_path / "copy")


@pytest.mark.parametrize("write", range(1, 12, 2))
def test_credentials_that_expire_in_the_middle_are_said_and_the_next_run_goes_on(
    made: Lake, store: ObjectStore, prefix: str, tmp_path: Path, write: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before the expiry, the copy is that of an earlier commit; afterwards it still is."""
    assert publish(made, store, prefix) == 0
    merge_all(made)
    add(made, range(40, 50))
    writes = 0

    def expire(environ: dict[str, Any]) -> tuple[str, str, bytes] | None:
        nonlocal writes
        writes += environ["REQUEST_METHOD"] != "GET"
        return EXPIRED if writes >= write else None

    store.refuse = expire
    capsys.readouterr()
    assert publish(made, store, prefix) == 1
    assert "look at --to, --endpoint, the credentials" in capsys.readouterr().err
    store.refuse = None
    assert ids_of(store.files(), f"{BUCKET}/{prefix}") in ([*range(40)], [*range(50)])

    assert publish(made, store, prefix) == 0
    check_copy(made, store, prefix, tmp_path / "copy")


@pytest.mark.parametrize("answer", [SLOW_DOWN, EXPIRED], ids=["503", "expired"])
def test_a_large_file_of_which_a_part_is_refused_is_not_there(
    target: Target, large: Path, store: ObjectStore, answer: tuple[str, str, bytes]
) -> None:
    store.refuse = lambda environ: answer if is_part(environ, 2) else None
    with pytest.raises(Exception, match=r"The store said"):
        target.upload(large, "archive/1.parquet")
    store.refuse = None
    assert target.list() == {}


def test_a_store_that_takes_its_time_is_waited_for(target: Target, store: ObjectStore) -> None:
    """AWS's library gives up after three seconds."""
    target.write("README.txt", "text")
    store.refuse = lambda environ: time.sleep(4)
    assert target.read("README.txt") == "text"


def test_a_store_that_knows_no_checksums_after_the_content_is_written_without_them(
    made: Lake, store: ObjectStore, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error advises this: an older MinIO or Ceph refuses them."""
    refused = ("501 Not Implemented", XML, b"<Error><Code>NotImplemented</Code><Message>A header</Message></Error>")
    store.refuse = lambda environ: refused if "HTTP_X_AMZ_TRAILER" in environ else None
    assert publish(made, store, prefix) == 1
    monkeypatch.setenv("AWS_REQUEST_CHECKSUM_CALCULATION", "when_required")
    monkeypatch.setenv("AWS_RESPONSE_CHECKSUM_VALIDATION", "when_required")
    assert publish(made, store, prefix) == 0
