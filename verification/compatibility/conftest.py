from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import psycopg
import pytest

from tests.support.paths import REPOSITORY

Results = dict[str, Any]


@pytest.fixture(scope="session")
def live_through(environment: dict[str, str], empty_database: Callable[[], Any]) -> Callable[..., Results]:
    """`live_through(options={…})`: the story on an empty database with these settings, and its results.

    `story`: the module of this folder that runs it.
    """

    def live_through(story: str = "story", *, own_alias: bool = False, **variant: Any) -> Results:
        with ExitStack() as stack:
            url = stack.enter_context(empty_database())
            if own_alias:
                variant["queue_url"] = stack.enter_context(empty_database())
            return run_story({**environment, "DATABASE_URL": url}, variant, story)

    return live_through


@pytest.fixture(scope="session")
def empty_database(pg_url: str, django_db_blocker: Any) -> Callable[[], Any]:
    made = iter(range(1_000_000))

    @contextmanager
    def empty_database() -> Iterator[str]:
        name = f"pgqueue_compatibility_{next(made)}"
        with psycopg.connect(pg_url, autocommit=True) as session:
            session.execute(f"DROP DATABASE IF EXISTS {name}")
            session.execute(f"CREATE DATABASE {name}")
            url = pg_url.replace(f"/{session.info.dbname}?", f"/{name}?")
            with psycopg.connect(url, autocommit=True) as inside:
                inside.execute("CREATE SCHEMA elsewhere")
            try:
                yield url
            finally:
                session.execute(f"DROP DATABASE {name} WITH (FORCE)")

    return empty_database


def run_story(environment: dict[str, str], variant: dict[str, Any], story: str) -> Results:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", f"verification.compatibility.{story}"],
        env={
            **environment,
            "PYTHONPATH": os.pathsep.join(
                [str(REPOSITORY), str(REPOSITORY / "testproject"), os.environ.get("PYTHONPATH", "")]
            ),
            "DJANGO_SETTINGS_MODULE": "verification.compatibility.settings",
            "COMPATIBILITY": json.dumps(variant),
        },
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])
