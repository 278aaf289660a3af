"""Root hands over to an unprivileged account and opens nothing that is closed. Collected only for root."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from django_pgqueue.embedded import Cluster, EmbeddedError, find_binaries
from django_pgqueue.embedded.temporary import THROWAWAY
from tests.embedded.conftest import PREAMBLE, as_user, query
from tests.support.processes import process_runs

Make = Callable[..., Cluster]
NOBODY = pwd.getpwnam("nobody")


@pytest.fixture
def nobodys(folder: Path) -> Path:
    os.chown(folder, NOBODY.pw_uid, NOBODY.pw_gid)
    return folder


@pytest.fixture
def public(folder: Path) -> str:
    """Binaries that every user can run, wherever the virtual environment is."""
    folder.chmod(0o1777)
    return str(find_binaries().usable_by((NOBODY.pw_uid, NOBODY.pw_gid), folder / "public").folder)


def owner(path: Path | str) -> int:
    return os.stat(path).st_uid


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def _more_groups() -> Iterator[None]:
    before = os.getgroups()
    os.setgroups([0, 4])
    yield
    os.setgroups(before)


def test_in_a_folder_of_its_own_the_server_runs_unprivileged_on_data_that_only_its_user_can_read(
    make: Make, folder: Path
):
    make().start()
    user = owner(folder / "data")
    assert owner(f"/proc/{make().pid}") == user != 0
    assert mode(folder / "data") == 0o700
    assert {path.name: (owner(path), mode(path)) for path in folder.iterdir() if path.name != "data"} == {
        "lock": (0, 0o600),
        "postgresql.log": (0, 0o600),
    }


@pytest.mark.parametrize("binaries", ["auto", "wheel"])
@pytest.mark.usefixtures("_more_groups")
def test_in_a_users_folder_it_runs_as_that_user_without_roots_groups(make: Make, nobodys: Path, binaries: str):
    cluster = make(binaries=binaries)
    cluster.start()
    assert owner(f"/proc/{cluster.pid}") == NOBODY.pw_uid
    names = {path.name for path in nobodys.iterdir() if owner(path) == NOBODY.pw_uid}
    assert names == {"data", "lock", "postgresql.log"}
    assert "\nGroups:\t \n" in Path(f"/proc/{cluster.pid}/status").read_text()


@pytest.mark.skipif(not shutil.which("setpriv"), reason="setpriv (of util-linux) takes a right away")
def test_in_a_container_whose_root_may_not_look_into_other_users_processes(make: Make, folder: Path):
    def contained(statement: str) -> str:
        script = f"{PREAMBLE}\ncluster = Cluster(argv[1], settings=THROWAWAY); print({statement})"
        without = ["setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace"]
        command = [*without, sys.executable, "-c", script, folder]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    assert contained("cluster.start()") == "True"
    pid = make().pid
    assert contained("(cluster.pid, cluster.start())") == f"({pid}, False)"
    assert contained("(cluster.stop(), cluster.start())") == "(True, True)"
    pid = make().pid
    assert contained("cluster.destroy()") == "True"
    assert not process_runs(pid)


def test_a_closed_project_folder_stays_closed_and_the_data_goes_elsewhere(tmp_path: Path):
    project = tmp_path / "project"
    project.mkdir(mode=0o700)
    before = {path: mode(path) for path in (project, tmp_path, *tmp_path.parents)}
    cluster = Cluster(project / ".pgqueue", settings=THROWAWAY)
    cluster.start()
    home = cluster.data.parent
    assert not home.is_relative_to(tmp_path)
    assert (owner(home), mode(home), mode(home / "data")) == (0, 0o711, 0o700)
    assert query(cluster, "SELECT 1") == 1
    assert Cluster(project / ".pgqueue").start() is False
    project.rename(tmp_path / "moved")
    moved = Cluster(tmp_path / "moved" / ".pgqueue")
    assert query(moved, "SELECT 1") == 1
    assert {path: mode(path) for path in before if path != project} == {
        path: bits for path, bits in before.items() if path != project
    }
    moved.destroy()
    assert not home.exists()
    assert not (tmp_path / "moved" / ".pgqueue").exists()


def test_a_lost_folder_elsewhere_is_made_anew(tmp_path: Path):
    tmp_path.chmod(0o700)
    cluster = Cluster(tmp_path / ".pgqueue", settings=THROWAWAY)
    cluster.start()
    lost = cluster.data.parent
    cluster.stop()
    shutil.rmtree(lost)
    assert cluster.version is None
    cluster.start()
    assert cluster.data.parent != lost
    cluster.destroy()


def test_binaries_in_a_closed_folder_are_copied_with_their_libraries(make: Make, tmp_path: Path, nobodys: Path):
    wheel = find_binaries("wheel")
    package = wheel.folder.parents[1]
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    shutil.copytree(wheel.folder.parent, closed / package.name / wheel.folder.parent.name, symlinks=True)
    shutil.copytree(package.with_name(f"{package.name}.libs"), closed / f"{package.name}.libs")
    cluster = make(binaries=str(closed / package.name / wheel.folder.parent.name / "bin"))
    cluster.start()
    assert query(cluster, "SHOW server_version").startswith(wheel.number)
    cluster.ensure_database("flights")
    assert str(nobodys / "binaries") in os.readlink(f"/proc/{cluster.pid}/exe")
    assert mode(closed) == 0o700
    cluster.stop()
    cluster.start()
    cluster.destroy()
    assert not nobodys.exists()


def test_an_ordinary_user_runs_its_own_server(folder: Path, public: str):
    home = folder / "nobodys"

    def life() -> list[object]:
        cluster = Cluster(home, settings=THROWAWAY, binaries=public)
        first, pid = cluster.start(), cluster.pid
        second = cluster.start()
        cluster.ensure_database("flights")
        modes = [mode(home), mode(home / "data")]
        return [first, second, owner(f"/proc/{pid}"), modes, cluster.stop(), cluster.destroy(), home.exists()]

    assert as_user("nobody", life) == [True, False, NOBODY.pw_uid, [0o700, 0o700], True, True, False]


def test_root_takes_over_a_users_server_without_locking_the_user_out(folder: Path, public: str):
    home = folder / "nobodys"

    def users() -> Cluster:
        return Cluster(home, settings=THROWAWAY, binaries=public)

    as_user("nobody", lambda: users().start())
    cluster = users()
    assert cluster.start() is False
    cluster.ensure_database("flights")
    assert cluster.stop() is True
    assert cluster.start() is True
    assert owner(f"/proc/{cluster.pid}") == NOBODY.pw_uid
    assert as_user("nobody", lambda: [users().stop(), users().start(), users().destroy()]) == [True, True, True]


def test_the_error_names_the_owner_of_the_data(make: Make, folder: Path):
    make().start()
    with pytest.raises(
        EmbeddedError, match=r"belongs to another user \(uid \d+\): run as that user, or choose another"
    ):
        as_user("nobody", lambda: make().start())
    folder.chmod(0o700)
    with pytest.raises(PermissionError):
        as_user("nobody", lambda: make().start())
