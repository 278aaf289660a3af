"""The tests of a project, and of docs/how-to/testing.md, by pytest, pytest-xdist and manage.py test."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from tests.support.markdown import DOCS, blocks
from tests.support.paths import REPOSITORY

PROJECT = Path(__file__).parent / "project"
DATABASE = "pgqueue_of_a_project"
# The effect of weeks on a test database that is kept.
AGED = """
DO $$ DECLARE v_name regclass; BEGIN
    FOR v_name IN SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = 'pgqueue_archived_message'::regclass
    LOOP EXECUTE format('DROP TABLE %s', v_name); END LOOP;
END $$
"""
# Each run starts several processes, which migrate a database each.
pytestmark = pytest.mark.timeout(400)
Run = Callable[..., str]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, pg_url: str) -> Iterator[Run]:
    """Runs a Python module in the folder of the project; returns what it says."""
    folder = tmp_path_factory.mktemp("project")
    shutil.copytree(PROJECT, folder, dirs_exist_ok=True)
    (folder / "pytest.ini").write_text("[pytest]\nDJANGO_SETTINGS_MODULE = settings\nfilterwarnings = error\n")
    installed(folder)
    how_to = [block.text for block in blocks(DOCS / "how-to" / "testing.md") if block.language == "python"]
    (folder / "test_how_to.py").write_text("\n\n".join(how_to))
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "DJANGO_SETTINGS"))
    }
    environment |= {
        "PYTHONPATH": os.pathsep.join([str(folder), str(REPOSITORY), os.environ.get("PYTHONPATH", "")]),
        "DATABASE_URL": pg_url,
    }
    environment |= {"DJANGO_SETTINGS_MODULE": "settings"}

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", *arguments],
            cwd=folder, env=environment, text=True, timeout=300, check=False,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout
        return done.stdout

    yield run
    for name in databases(pg_url):
        on_server(pg_url, f"DROP DATABASE {name} WITH (FORCE)")


def installed(folder: Path) -> None:
    """The entry point of pyproject.toml, as if the package were installed: it may be an older one that is."""
    points = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    info = folder / "pgqueue_under_test-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pgqueue-under-test\nVersion: 1\n")
    lines = [f"{name} = {module}" for name, module in points.items()]
    (info / "entry_points.txt").write_text("\n".join(["[pytest11]", *lines, ""]))


def on_server(url: str, sql: str, database: str = "postgres") -> list[tuple[str]]:
    with psycopg.connect(url, dbname=database, autocommit=True) as session:
        cursor = session.execute(sql)
        return cursor.fetchall() if cursor.description else []


def databases(url: str) -> list[str]:
    found = on_server(url, f"SELECT datname FROM pg_database WHERE datname LIKE '{DATABASE}%'")
    return sorted(name for (name,) in found)


def test_pytest_with_several_processes_and_databases_that_are_kept_for_weeks(run: Run, pg_url: str) -> None:
    assert "21 passed" in run("pytest", "-q", "-n", "2", "--reuse-db")
    kept = databases(pg_url)
    assert kept == [f"{DATABASE}_gw0", f"{DATABASE}_gw1"]
    for name in kept:
        on_server(pg_url, AGED, name)

    assert "3 passed" in run("pytest", "-q", "-n", "1", "--reuse-db", "-k", "by_hand or CommittingTest")


def test_manage_py_test_in_parallel(run: Run) -> None:
    said = run("django", "test", "--parallel", "2", "--keepdb")

    assert "Ran 12 tests" in said
    assert said.rstrip().endswith("OK") or "\nOK\n" in said


def test_the_plugin_is_loaded_without_django() -> None:
    code = (
        "import sys; import django_pgqueue.testing.plugin; "
        "loaded = [name for name in sys.modules if name.split('.')[0] in ('django', 'psycopg', 'asgiref')]; "
        "assert not loaded, loaded"
    )
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}

    subprocess.run([sys.executable, "-W", "error", "-c", code], env=environment, check=True)
