"""The migrations on a fresh database: forwards, backwards to nothing, and forwards again to the same schema."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from django_pgqueue.sql import files, roles
from tests.support.paths import REPOSITORY

# The server is there for tests that say they need it.
pytestmark = pytest.mark.django_db

FORTH_AND_BACK = """
import json, sys
import django
from django.core.management import call_command
from django.db import connection

django.setup()

SCHEMA = {
    "functions": "SELECT oid::regprocedure::text, prosrc, proconfig::text FROM pg_proc WHERE proname LIKE 'pgqueue%%'",
    "relations": "SELECT c.relname, c.relkind::text, c.reloptions::text, c.relpersistence::text"
        " FROM pg_class AS c WHERE c.relname LIKE 'pgqueue%%'",
    "columns": "SELECT a.attrelid::regclass::text, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,"
        " a.attidentity::text, a.attcollation::regcollation::text, pg_get_expr(d.adbin, d.adrelid)"
        " FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid"
        " LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum"
        " WHERE c.relname LIKE 'pgqueue%%' AND a.attnum > 0 AND NOT a.attisdropped",
    "indexes": "SELECT indexname, indexdef FROM pg_indexes WHERE tablename LIKE 'pgqueue%%'",
    "constraints": "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conname LIKE 'pgqueue%%'",
    "triggers": "SELECT tgname, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal",
    "trigger functions": "SELECT proname, prosrc FROM pg_proc WHERE proname LIKE 'pgtrigger%%'",
    "types": "SELECT typname FROM pg_type WHERE typname LIKE '%%pgqueue%%' AND typtype <> 'c' AND typcategory <> 'A'",
}

def schema():
    with connection.cursor() as cursor:
        found = {}
        for title, sql in SCHEMA.items():
            cursor.execute(sql.replace("%%", "%"))
            found[title] = sorted([str(value) for value in row] for row in cursor.fetchall())
        return found

def migrate(*arguments):
    call_command("migrate", *arguments, verbosity=0)
    return schema()

answers = [migrate(), migrate("pgqueue", "zero"), migrate()]
for number in ("0002", "0001", "0002", "0001"):
    answers.append(migrate("pgqueue", number))
answers.append(migrate())
answers.append(migrate("pgqueue_pipeline", "zero"))
migrate()
with connection.cursor() as cursor:
    # A bulk enqueue that was killed.
    cursor.execute("SELECT pgqueue_ingest_open('killed')")
answers.append(migrate("pgqueue", "zero"))
json.dump(answers, sys.stdout)
"""


@pytest.fixture(scope="module")
def fresh(environment: dict[str, str], pg_url: str, django_db_blocker: Any) -> Iterator[dict[str, str]]:
    """The environment of a subprocess on a database of its own, with nothing in it."""
    name = "pgqueue_fresh"
    with psycopg.connect(pg_url, autocommit=True) as session:
        session.execute(f"DROP DATABASE IF EXISTS {name}")
        session.execute(f"CREATE DATABASE {name}")
        url = pg_url.replace(f"/{session.info.dbname}?", f"/{name}?")
        path = os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "testproject")])
        yield {**environment, "DATABASE_URL": url, "PYTHONPATH": path, "PYTHONWARNINGS": "error"}
        session.execute(f"DROP DATABASE {name} WITH (FORCE)")


def python(environment: dict[str, str], *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def answers(fresh: dict[str, str]) -> list[dict[str, list[list[str]]]]:
    return json.loads(python(fresh, "-c", FORTH_AND_BACK))


@pytest.mark.parametrize("zero", [1, 9], ids=["as it was made", "with a left-over stage"])
def test_backwards_to_zero_leaves_nothing(answers: list[dict[str, list[list[str]]]], zero: int) -> None:
    """The pipeline, which needs the queue, goes with it; and the functions that django-pgtrigger makes."""
    assert answers[0]["trigger functions"]
    assert {title: found for title, found in answers[zero].items() if found} == {}


def test_the_pipeline_goes_alone_and_leaves_the_queue(answers: list[dict[str, list[list[str]]]]) -> None:
    whole, rest = answers[7], answers[8]
    gone = {title: [row for row in found if row not in rest[title]] for title, found in whole.items()}
    assert all(row in whole[title] for title, found in rest.items() for row in found)
    functions = {signature.partition("(")[0] for signature, *_ in gone["functions"]}
    assert functions == set(files.latest_functions([files.PIPELINE]))
    tables = {name for name, kind, *_ in gone["relations"] if kind == "r"}
    assert tables == {f"pgqueue_{table}" for table in roles.PIPELINE_TABLES}
    assert "pgqueue_dead_letter_xid" in {name for name, _ in gone["indexes"]}
    assert gone["triggers"] == []


@pytest.mark.parametrize("again", [2, 7], ids=["after zero", "after each step twice"])
def test_forwards_again_makes_the_same_schema(answers: list[dict[str, list[list[str]]]], again: int) -> None:
    for title, found in answers[0].items():
        assert answers[again][title] == found, title


def test_every_step_back_can_be_taken_again(answers: list[dict[str, list[list[str]]]]) -> None:
    assert answers[5] == answers[3]
    assert answers[6] == answers[4]


def test_the_migrations_are_complete(fresh: dict[str, str]) -> None:
    """Models, triggers and migrations say the same."""
    assert "No changes" in python(fresh, "testproject/manage.py", "makemigrations", "--check", "--dry-run")


def test_the_migrations_can_be_shown_as_sql(fresh: dict[str, str]) -> None:
    """An administrator who may not run DDL from Django reads the output of `sqlmigrate`; it is all there."""
    for number, word in {
        "0001": "CREATE TABLE pgqueue_lane",
        "0002": "CREATE OR REPLACE FUNCTION pgqueue_dequeue",
        "0003": "CREATE TRIGGER",
    }.items():
        assert word in " ".join(python(fresh, "testproject/manage.py", "sqlmigrate", "pgqueue", number).split())


@pytest.mark.parametrize(
    ("kept_out", "made"),
    [(["pgqueue", "pgqueue_pipeline"], []), (["pgqueue"], ["lake", "queue_metric"])],
    ids=["both apps", "a router that forgets the pipeline"],
)
def test_a_database_that_is_not_the_queues_stays_empty(
    fresh: dict[str, str], pg_url: str, kept_out: list[str], made: list[str]
) -> None:
    """Routers decide: `allow_migrate` False means nothing, neither tables nor functions."""
    program = (
        f"KEPT_OUT = {kept_out}"
        """
import django, sys
from django.conf import settings
from django.core.management import call_command
from django.db import connection

class Elsewhere:
    def allow_migrate(self, db, app_label, **hints):
        return app_label not in KEPT_OUT

django.setup()
settings.DATABASE_ROUTERS = [Elsewhere()]
from django.db import router
router.__dict__["routers"] = settings.DATABASE_ROUTERS
call_command("migrate", verbosity=0)
with connection.cursor() as cursor:
    cursor.execute("SELECT relname FROM pg_class WHERE relname LIKE 'pgqueue%' AND relkind IN ('r', 'p')")
    print(*sorted(name for (name,) in cursor.fetchall()))
    cursor.execute("SELECT count(*) FROM pg_proc WHERE proname LIKE 'pgqueue%'")
    print(cursor.fetchone()[0])
"""
    )
    with psycopg.connect(pg_url, autocommit=True) as session:
        session.execute("CREATE DATABASE pgqueue_elsewhere")
        try:
            url = fresh["DATABASE_URL"].replace("/pgqueue_fresh?", "/pgqueue_elsewhere?")
            assert python({**fresh, "DATABASE_URL": url}, "-c", program).split() == [
                *(f"pgqueue_{table}" for table in made),
                "0",
            ]
        finally:
            session.execute("DROP DATABASE pgqueue_elsewhere WITH (FORCE)")
