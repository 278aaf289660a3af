from __future__ import annotations

import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from django_pgqueue.spark.session import session
from tests.spark.rolling import WAYS, Roll, rolling
from tests.spark.rows import DAY, fill_archive, fill_dead_letters, make_partition
from tests.support.sessions import Connect
from tests.support.tables import empty_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from django_pgqueue.spark.lake import Lake
    from django_pgqueue.spark.source import Source
    from tests.spark.object_store import ObjectStore

SMALL = {
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    # A quick start instead of quick code.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
# Days that tests of other files have made.
OLD_PARTITIONS = """
DO $$
DECLARE
    v_partition regclass;
BEGIN
    PERFORM set_config('lock_timeout', '200s', true);
    FOR v_partition IN
        SELECT i.inhrelid FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'pgqueue_archived_message'::regclass
            AND c.relname < 'pgqueue_archived_message_' || to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD')
    LOOP
        EXECUTE format('DROP TABLE %s', v_partition);
    END LOOP;
END;
$$
"""
# Seconds: the start of Spark is slow on a machine that has more to do.
PATIENCE_SECONDS = 300


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith("tests/spark/") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(PATIENCE_SECONDS))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The one session of all tests in this process. Commands that are run in the process use it too, and leave it."""
    with session("tests", master="local[2,4]", memory="512m", conf=SMALL) as spark:
        yield spark


@pytest.fixture
def dsn(pg_url: str, transactional_db: None) -> Iterator[str]:
    """The test database, empty but for the channel default; what tests and jobs do in it is committed."""
    with psycopg.connect(pg_url, autocommit=True) as database:
        empty_tables(database)
        database.execute(OLD_PARTITIONS)
        # Made here, so that no test waits for another session's making it.
        make_partition(database, DAY)
        database.execute("SELECT pgqueue_channel_set('default', 'default')")
        yield pg_url
        empty_tables(database)


@pytest.fixture
def source(dsn: str) -> Source:
    from django_pgqueue.spark.source import Source

    return Source.parse(dsn)


@pytest.fixture
def database(dsn: str, connect: Connect) -> psycopg.Connection[Any]:
    """A session on the database of `dsn`, to fill it and to look: autocommit, in UTC."""
    return connect(autocommit=True, options="-c timezone=UTC")


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Where a lake may be made."""
    return tmp_path / "lake"


@pytest.fixture
def made(lake: Path) -> Lake:
    """A lake with three files of a day and one of the next."""
    from django_pgqueue.spark.lake import Lake
    from tests.spark.test_compact import NEXT_DAY, add

    made = Lake.open(lake, create=True)
    for n in range(3):
        add(made, range(n * 10, n * 10 + 10))
    add(made, range(30, 40), NEXT_DAY)
    return made


@pytest.fixture
def prefix() -> str:
    """A prefix of the bucket that no other test has."""
    return f"lakes/{uuid.uuid4().hex}"


@pytest.fixture
def verify(
    dsn: str,
    source: Source,
    database: psycopg.Connection[Any],
    lake: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., tuple[int, str]]:
    """A lake with rows of two exports; the function verifies it and returns status and output."""
    from django_pgqueue.spark.cli import main
    from django_pgqueue.spark.export.job import export

    fill_archive(database, 100)
    fill_dead_letters(database, 10)
    export(source, lake)
    fill_archive(database, 50)
    export(source, lake)
    monkeypatch.setenv("PGQUEUE_SOURCE", dsn)

    def verify(*arguments: str) -> tuple[int, str]:
        capsys.readouterr()
        status = main(["verify", "--lake", str(lake), *arguments])
        output = capsys.readouterr()
        return status, output.out + output.err

    return verify


@pytest.fixture(params=WAYS)
def roll(request: pytest.FixtureRequest) -> Roll:
    """Compute the metrics of a lake in one of the two ways."""
    return rolling(request.getfixturevalue("spark") if WAYS[request.param] else None)


@pytest.fixture(scope="session")
def s3_server() -> Iterator[ObjectStore]:
    """One server of the S3 protocol for all tests of this process, with an empty bucket."""
    from tests.spark.object_store import BUCKET, ObjectStore

    with ObjectStore().serving() as store:
        request = urllib.request.Request(f"{store.endpoint}/{BUCKET}", method="PUT")
        urllib.request.urlopen(request).close()
        yield store


@pytest.fixture
def store(s3_server: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    """The server, with the credentials for it in the environment."""
    from tests.spark.object_store import KEY, SECRET

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    yield s3_server
    s3_server.reset()
