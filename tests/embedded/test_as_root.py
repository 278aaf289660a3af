"""Root hands over to an unprivileged account and opens nothing that is closed. Collected only for root."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from django_pgqueue.embedded import Cluster, EmbeddedError, find_binaries
from django_pgqueue.embedded.account import account_for
from django_pgqueue.embedded.temporary import THROWAWAY
from tests.embedded.conftest import as_user, query

Make = Callable[..., Cluster]


@pytest.fixture
def public(folder: Path) -> str:
    """Binaries that every user can run, wherever the virtual environment is."""
    folder.chmod(0o1777)
    nobody = account_for(folder, folder / "none", "nobody")
    return str(find_binaries().readable_by(nobody, folder / "public").folder)


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


@pytest.mark.parametrize("binaries", ["auto", "wheel"])
@pytest.mark.usefixtures("_more_groups")
def test_the_server_runs_as_nobody_on_data_that_only_nobody_can_read(make: Make, folder: Path, binaries: str):
    cluster = make(user="nobody", binaries=binaries)
    cluster.start()
    status = cluster.status()
    nobody = owner(folder / "data")
    assert status.account == "nobody"
    assert owner(f"/proc/{status.pid}") == nobody != 0
    assert mode(folder / "data") == 0o700
    assert {path.name for path in folder.iterdir() if path.stat().st_uid == nobody} == {"data", "postgresql.log"}
    assert {mode(folder / name) for name in ("cluster.json", "lock", "postgresql.log")} == {0o600}
    assert "\nGroups:\t \n" in Path(f"/proc/{status.pid}/status").read_text()  # none of root's


def test_a_closed_project_folder_stays_closed_and_the_data_goes_to_the_temporary_folder(tmp_path: Path):
    project = tmp_path / "project"
    project.mkdir(mode=0o700)
    before = {path: mode(path) for path in (project, tmp_path, *tmp_path.parents)}
    cluster = Cluster(project / ".pgqueue", settings=THROWAWAY, user="nobody")
    cluster.start()
    home = cluster.status().data.parent
    assert not home.is_relative_to(tmp_path)
    assert (project / ".pgqueue" / "location").read_text() == f"{home}\n"
    assert mode(home) == 0o711
    assert mode(home / "data") == 0o700
    assert query(cluster, "SELECT 1") == 1
    assert Cluster(project / ".pgqueue").start() is False
    assert {path: mode(path) for path in before} == before
    cluster.destroy()
    assert not home.exists()
    assert not (project / ".pgqueue").exists()


def test_a_lost_temporary_folder_is_made_anew(tmp_path: Path):
    tmp_path.chmod(0o700)
    cluster = Cluster(tmp_path / ".pgqueue", settings=THROWAWAY)
    cluster.start()
    lost = cluster.status().data.parent
    cluster.stop()
    shutil.rmtree(lost)
    assert cluster.status().state == "absent"
    cluster.start()
    assert cluster.status().data.parent != lost
    cluster.destroy()


def test_a_temporary_folder_that_changed_hands_is_not_used(tmp_path: Path):
    tmp_path.chmod(0o700)
    cluster = Cluster(tmp_path / ".pgqueue", settings=THROWAWAY, user="nobody")
    cluster.prepare()
    home = Path((tmp_path / ".pgqueue" / "location").read_text().strip())
    os.chown(home, pwd.getpwnam("nobody").pw_uid, -1)
    assert cluster.status().state == "absent"
    shutil.rmtree(home)


def test_binaries_in_a_closed_folder_are_copied_with_their_libraries(make: Make, tmp_path: Path, folder: Path):
    wheel = find_binaries("wheel")
    package = wheel.folder.parents[1]
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    shutil.copytree(wheel.folder.parent, closed / package.name / wheel.folder.parent.name, symlinks=True)
    shutil.copytree(package.with_name(f"{package.name}.libs"), closed / f"{package.name}.libs")
    cluster = make(binaries=str(closed / package.name / wheel.folder.parent.name / "bin"), user="nobody")
    cluster.start()
    assert query(cluster, "SHOW server_version").startswith(wheel.number)
    cluster.ensure_database("flights")
    assert str(folder / "binaries") in os.readlink(f"/proc/{cluster.status().pid}/exe")
    assert mode(closed) == 0o700
    cluster.stop()
    cluster.start()
    cluster.destroy()
    assert not folder.exists()


def test_an_ordinary_user_runs_its_own_server(folder: Path, public: str):
    home = folder / "nobodys"

    def life() -> list[object]:
        cluster = Cluster(home, settings=THROWAWAY, binaries=public)
        first, status = cluster.start(), cluster.status()
        second = cluster.start()
        cluster.ensure_database("flights")
        modes = [mode(home), mode(home / "data")]
        return [first, second, status.account, modes, cluster.stop(), cluster.destroy(), home.exists()]

    assert as_user("nobody", life) == [True, False, "nobody", [0o700, 0o700], True, True, False]


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
    assert cluster.status().account == "nobody"
    assert as_user("nobody", lambda: [users().stop(), users().start(), users().destroy()]) == [True, True, True]


def test_the_error_names_the_owner_of_the_data(make: Make, folder: Path):
    make(user="postgres").start()
    with pytest.raises(
        EmbeddedError, match=r"belongs to another user \(uid \d+\): run as that user, or choose another"
    ):
        as_user("nobody", lambda: make().start())
    folder.chmod(0o700)
    with pytest.raises(EmbeddedError, match="Permission denied"):
        as_user("nobody", lambda: make().start())


def test_a_user_that_does_not_exist_is_named(make: Make):
    with pytest.raises(EmbeddedError, match="There is no user 'nosuchuser' to run PostgreSQL as"):
        make(user="nosuchuser").start()
