from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from django_pgqueue.embedded import Binaries, Cluster, EmbeddedError, find_all, temporary_cluster
from tests.embedded.conftest import NEWEST_OF_EACH_SOURCE, query
from tests.support.processes import process_runs

Make = Callable[..., Cluster]


def test_a_cluster_lives_through_start_reuse_stop_and_destroy(make: Make, binaries: Binaries, folder: Path):
    cluster = make(binaries=str(binaries.folder))
    assert (cluster.pid, cluster.version) == (None, None)

    assert cluster.start() is True
    assert query(cluster, "SHOW server_version").startswith(binaries.number)
    query(cluster, "CREATE TABLE kept AS SELECT 42 AS n")
    pid = cluster.pid
    assert process_runs(pid)
    assert (cluster.version, cluster.data) == (binaries.major, folder / "data")

    assert make(binaries=str(binaries.folder)).start() is False  # reused by the next caller
    assert cluster.pid == pid

    assert cluster.stop() is True
    assert cluster.stop() is False
    assert not process_runs(pid)
    assert (cluster.pid, cluster.version) == (None, binaries.major)
    assert cluster.start() is True
    assert query(cluster, "SELECT n FROM kept") == 42

    assert cluster.destroy() is True
    assert cluster.destroy() is False
    assert not folder.exists()


def test_its_default_settings_are_safe(folder: Path):
    cluster = Cluster(folder)
    cluster.start()
    for name, value in {
        "fsync": "on",
        "full_page_writes": "on",
        "synchronous_commit": "on",
        "shared_buffers": "256MB",
        "max_connections": "200",
        "server_encoding": "UTF8",
    }.items():
        assert query(cluster, f"SHOW {name}") == value


def test_stopping_ends_open_connections(make: Make):
    cluster = make()
    cluster.start()
    session = psycopg.connect(cluster.url())
    session.execute("SELECT 1")  # in a transaction
    assert cluster.stop() is True
    with pytest.raises(psycopg.OperationalError):
        session.execute("SELECT 1")


@pytest.fixture(scope="module", params=NEWEST_OF_EACH_SOURCE, ids=lambda binaries: binaries.source)
def running(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    settings = {"log_line_prefix": "it's ", "max_connections": "17"}
    with temporary_cluster(binaries=str(request.param.folder), settings=settings) as cluster:
        yield cluster


def test_it_listens_on_a_private_socket_only(running: Cluster):
    assert query(running, "SHOW listen_addresses") == ""
    assert stat.S_IMODE(running.data.stat().st_mode) == 0o700
    rules = query(running, "SELECT string_agg(type || ' ' || auth_method, ',' ORDER BY type) FROM pg_hba_file_rules")
    assert {"local trust", "host reject"} == set(rules.split(","))


def test_settings_are_written_as_given(running: Cluster):
    assert query(running, "SHOW log_line_prefix") == "it's "
    assert query(running, "SHOW max_connections") == "17"


def test_a_database_is_created_once_whatever_its_name(running: Cluster):
    for name in ("flights", 'o\'ne "two" %', "größe"):
        running.ensure_database(name)
        running.ensure_database(name)
        assert query(running, "SELECT current_database()", name) == name


def test_the_variables_of_another_server_do_not_lead_astray(running: Cluster, monkeypatch: pytest.MonkeyPatch):
    for name, value in {"PGHOST": "/nonexistent", "PGPORT": "1", "PGDATA": "/nonexistent", "PGOPTIONS": "-c x"}.items():
        monkeypatch.setenv(name, value)
    running.ensure_database("not led astray")
    assert running.stop() is True
    assert running.start() is True


def test_data_of_another_version_is_refused_with_a_way_out(make: Make):
    old, new = find_all()[-1], find_all("wheel")[0]
    assert old.major < new.major
    make(binaries=str(old.folder)).start()
    make().stop()  # "auto" takes the binaries that fit the data
    with pytest.raises(EmbeddedError, match=rf"No PostgreSQL {old.major} for .*there is PostgreSQL {new.number}"):
        make(binaries=str(new.folder)).start()


def test_a_start_that_fails_says_why_and_where_the_log_is(make: Make, folder: Path):
    cluster = make(settings={"fsync": "off", "shared_buffers": "12 bananas"})
    with pytest.raises(EmbeddedError, match=r"shared_buffers|configuration file .* contains errors") as raised:
        cluster.start()
    assert "\n" not in str(raised.value)
    assert f"(log: {folder / 'postgresql.log'})" in str(raised.value)


def test_an_interrupted_initdb_leaves_nothing_in_the_way(make: Make, folder: Path):
    (folder / "data.partial").mkdir()
    (folder / "data.partial" / "PG_VERSION").write_text("15\n")
    assert make().start() is True


def test_the_address_is_known_before_the_server_starts(make: Make):
    cluster = make()
    cluster.prepare()
    url = cluster.url("postgres")
    cluster.start()
    assert cluster.url("postgres") == url
    psycopg.connect(url).close()


def test_destroy_leaves_what_is_not_its_own(make: Make, folder: Path):
    (folder / "mine.txt").write_text("kept")
    cluster = make()
    cluster.start()
    cluster.destroy()
    assert [path.name for path in folder.iterdir()] == ["mine.txt"]


def test_the_log_is_begun_anew_when_it_is_long(make: Make, folder: Path):
    log = folder / "postgresql.log"
    log.write_bytes(b"long" * 3 * 1024 * 1024)
    make().start()
    assert b"long" not in log.read_bytes()
    make().stop()
    length = log.stat().st_size
    make().start()
    assert log.stat().st_size > length


@pytest.mark.parametrize("name", ["it's a folder (größe-日本) & *; #", "one,two", '$HOME "`\\', "x" * 120])
def test_any_path_works_and_is_left_empty(make: Make, folder: Path, name: str):
    cluster = make(folder / name)
    assert cluster.start() is True
    cluster.ensure_database("flights")
    assert query(cluster, "SELECT current_database()", "flights") == "flights"
    data = cluster.data
    assert len(os.fsencode(data / ".s.PGSQL.5432")) <= 103
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    assert cluster.stop() is True
    assert make(folder / name).start() is True
    assert (cluster.data, query(cluster, "SELECT 1", "flights")) == (data, 1)
    assert cluster.destroy() is True
    assert not (folder / name).exists()
    assert data.parent == folder / name or not data.parent.exists()
