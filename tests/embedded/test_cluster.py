from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from django_pgqueue.embedded import Binaries, Cluster, EmbeddedError, find_all, temporary_cluster
from tests.embedded.conftest import NEWEST_OF_EACH_SOURCE, query

Make = Callable[..., Cluster]


def test_a_cluster_lives_through_start_reuse_stop_and_destroy(make: Make, binaries: Binaries, folder: Path):
    cluster = make(binaries=str(binaries.folder))
    assert cluster.status().state == "absent"

    assert cluster.start() is True
    assert query(cluster, "SHOW server_version").startswith(binaries.number)
    query(cluster, "CREATE TABLE kept AS SELECT 42 AS n")
    running = cluster.status()
    assert (running.state, running.version, running.data) == ("running", binaries.major, folder / "data")

    assert make(binaries=str(binaries.folder)).start() is False  # reused by the next caller
    assert cluster.status().pid == running.pid

    assert cluster.stop() is True
    assert cluster.stop() is False
    assert cluster.status().state == "stopped"
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
        "logging_collector": "off",
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
    assert stat.S_IMODE(running.socket_dir().stat().st_mode) == 0o700
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
    with pytest.raises(EmbeddedError, match=rf"No PostgreSQL {old.major} in .*there is PostgreSQL {new.number}"):
        make(binaries=str(new.folder)).start()


def test_a_start_that_fails_says_why_and_where_the_log_is(make: Make, folder: Path):
    cluster = make(settings={"fsync": "off", "shared_buffers": "12 bananas"})
    with pytest.raises(EmbeddedError, match=r"shared_buffers|configuration file .* contains errors") as raised:
        cluster.start()
    assert "\n" not in str(raised.value)
    assert f"(log: {folder / 'postgresql.log'})" in str(raised.value)


def test_an_interrupted_initdb_leaves_nothing_in_the_way(make: Make, folder: Path):
    make().prepare()
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


def test_a_long_log_makes_room_when_the_server_starts(make: Make, folder: Path):
    cluster = make()
    cluster.start()
    cluster.stop()
    with (folder / "postgresql.log").open("r+b") as log:
        log.truncate(11 * 1024 * 1024)
    cluster.start()
    assert (folder / "postgresql.log").stat().st_size < 1024 * 1024
    assert (folder / "postgresql.log.1").stat().st_size == 11 * 1024 * 1024


def test_destroy_leaves_what_is_not_its_own(make: Make, folder: Path):
    (folder / "mine.txt").write_text("kept")
    cluster = make()
    cluster.start()
    cluster.destroy()
    assert [path.name for path in folder.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize("name", ["it's a folder (größe-日本) & *; #", "one,two"])
def test_unusual_paths_work(make: Make, folder: Path, name: str):
    cluster = make(folder / name)
    cluster.start()
    cluster.ensure_database("flights")
    assert query(cluster, "SELECT current_database()", "flights") == "flights"
    assert cluster.stop() is True


def test_a_long_path_gets_a_short_private_socket_folder(make: Make, folder: Path):
    cluster = make(folder / "deep" / ("x" * 120))
    (folder / "deep").mkdir(mode=0o711)
    cluster.start()
    sockets = cluster.socket_dir()
    assert len(os.fsencode(sockets)) < 86
    assert stat.S_IMODE(sockets.stat().st_mode) == 0o700
    assert query(cluster, "SELECT 1") == 1
    cluster.stop()
    sockets.rename(f"{sockets}-cleaned")  # as the cleaning of the temporary folder does
    cluster.start()
    assert query(cluster, "SELECT 1") == 1
    used = cluster.socket_dir()
    cluster.destroy()
    assert not used.exists()
    Path(f"{sockets}-cleaned").rmdir()


def test_a_path_that_pg_ctl_cannot_quote_is_refused(make: Make, folder: Path):
    with pytest.raises(EmbeddedError, match=r"has '\$', on which pg_ctl fails"):
        make(folder / "$HOME").start()
