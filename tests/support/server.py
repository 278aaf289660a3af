"""The server under test: DATABASE_URL, or else a throw-away cluster for this run of pytest.

A plugin of its own (`-p tests.support.server` in pyproject.toml): pytest-django reads the settings before any
conftest.py.
With `-n 2`, each process of pytest-xdist has a cluster of its own, because some tests manipulate the server.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from unittest import mock

import pytest

from django_pgqueue.embedded import Binaries, Cluster, EmbeddedError, find_all, find_binaries, temporary_cluster
from tests.support.hostile import HOSTILE, german_locale

CLUSTER = pytest.StashKey[Cluster]()
BINARIES = pytest.StashKey[Binaries]()
OTHER = "other"
# The address of the controller's cluster, which is never started: a process of pytest-xdist replaces it by its own.
CONTROLLER = "PGQUEUE_TEST_CONTROLLER"
# Processes of pytest-xdist load the plugins of the command line too late, and those of this variable in time.
PLUGINS = "PYTEST_PLUGINS"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--pg",
        default=os.environ.get("PGQUEUE_TEST_PG") or "auto",
        metavar="auto|system|wheel|other|/path/to/bin",
        help="binaries of the throw-away cluster: auto takes the system's before the wheel's, other the wheel's where "
        "there are both and else runs nothing; unused when DATABASE_URL is set",
    )
    parser.addoption(
        "--hostile",
        action="store_true",
        help="run on a throw-away server with the settings of tests/support/hostile.py",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    if os.environ.get("DATABASE_URL") != os.environ.pop(CONTROLLER, None):
        return
    os.environ.pop(PLUGINS, None)
    cleanup = ExitStack()
    early_config.add_cleanup(cleanup.close)
    try:
        binaries = find_binaries(chosen(early_config))
        # Started by the first test that needs it; what pytest-django and subprocesses need is the address.
        settings = HOSTILE if early_config.known_args_namespace.hostile else None
        cluster = cleanup.enter_context(
            temporary_cluster(binaries=str(binaries.folder), settings=settings, start=False)
        )
    except EmbeddedError as error:
        raise pytest.UsageError(str(error)) from None
    early_config.stash[BINARIES] = binaries
    early_config.stash[CLUSTER] = cluster
    os.environ["DATABASE_URL"] = cluster.url("pgqueue")
    cleanup.callback(os.environ.pop, "DATABASE_URL")
    if getattr(early_config.known_args_namespace, "numprocesses", None):
        os.environ |= {CONTROLLER: os.environ["DATABASE_URL"], PLUGINS: __name__}


def chosen(config: pytest.Config) -> str:
    choice = config.known_args_namespace.pg
    if choice != OTHER:
        return choice
    return "system" if os.environ.get("PGQUEUE_TEST_PG") == "wheel" else "wheel"


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | None:
    if config.option.pg != OTHER or (CLUSTER in config.stash and find_all("system") and find_all("wheel")):
        return None
    print("--pg=other: there is only one PostgreSQL to test on, nothing is run")
    return 0


def pytest_report_header(config: pytest.Config) -> str:
    return f"server: {config.stash.get(BINARIES, 'DATABASE_URL')}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Plan tests need the module auto_explain, which the wheel does not have: they run on the system's server."""
    if has_module(config, "auto_explain"):
        return
    unable = [item for item in items if item.get_closest_marker("auto_explain")]
    items[:] = [item for item in items if item not in unable]
    config.hook.pytest_deselected(items=unable)


def has_module(config: pytest.Config, name: str) -> bool:
    binaries = config.stash.get(BINARIES, None)
    return binaries is None or any((binaries.folder.parent / "lib").rglob(f"{name}.*"))


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    request: pytest.FixtureRequest, django_db_modify_db_settings_parallel_suffix: None
) -> Iterator[None]:
    """Starts the throw-away cluster before pytest-django makes the test database. Its sessions may speak German."""
    with ExitStack() as stack:
        if cluster := request.config.stash.get(CLUSTER, None):
            with mock.patch.dict(os.environ, stack.enter_context(german_locale())):
                cluster.start()
        yield
