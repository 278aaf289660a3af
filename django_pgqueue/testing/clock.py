"""Freeze both clocks, PostgreSQL's and Python's, until the test moves them.

PostgreSQL searches a function in the schemas of its search_path, one after the other. The functions of the queue have a
path of their own; while the clock is frozen, a schema with other clocks stands in it before pg_catalog. In the
transaction of a TestCase all of this is rolled back. In tests that commit, it holds only while a session of the test
has a lock: if the test is killed, PostgreSQL's clock runs again, and the next freeze removes the schema.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

from django.conf import settings
from django.core import mail
from django.db import DatabaseError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils import timezone

from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.lifecycle.arguments import aware, checked_duration
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.lifecycle.make_partitions import make_partitions
from django_pgqueue.sql.call import call

SCHEMA = "pgqueue_clock"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
LOCK = "7205, 9"
HELD = """
EXISTS (
    SELECT FROM pg_locks AS l
    WHERE l.locktype = 'advisory' AND (l.classid, l.objid) = (7205, 9) AND l.granted
        AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database()))
"""
# The time is in a sequence, because a rollback does not move it, and all sessions share it.
MAKE = """
CREATE SCHEMA pgqueue_clock;
GRANT USAGE ON SCHEMA pgqueue_clock TO PUBLIC;
CREATE SEQUENCE pgqueue_clock.microseconds MINVALUE -9223372036854775808;
GRANT SELECT ON SEQUENCE pgqueue_clock.microseconds TO PUBLIC;
CREATE FUNCTION pgqueue_clock.clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF {held} THEN
        RETURN timestamptz 'epoch' + interval '1 us' * (SELECT s.last_value FROM pgqueue_clock.microseconds AS s);
    END IF;
    RETURN pg_catalog.clock_timestamp();
END $$;
CREATE FUNCTION pgqueue_clock.now() RETURNS timestamptz LANGUAGE sql STABLE AS 'SELECT pgqueue_clock.clock_timestamp()';
CREATE FUNCTION pgqueue_clock.transaction_timestamp() RETURNS timestamptz LANGUAGE sql STABLE
    AS 'SELECT pgqueue_clock.clock_timestamp()';
CREATE FUNCTION pgqueue_clock.statement_timestamp() RETURNS timestamptz LANGUAGE sql STABLE
    AS 'SELECT pgqueue_clock.clock_timestamp()';
"""
# Without CASCADE, so that an object that depends on the clock of the test is an error.
DROP = """
DROP FUNCTION IF EXISTS pgqueue_clock.statement_timestamp();
DROP FUNCTION IF EXISTS pgqueue_clock.transaction_timestamp();
DROP FUNCTION IF EXISTS pgqueue_clock.now();
DROP FUNCTION IF EXISTS pgqueue_clock.clock_timestamp();
DROP SEQUENCE IF EXISTS pgqueue_clock.microseconds;
DROP SCHEMA IF EXISTS pgqueue_clock;
"""
# A default keeps the function that it was created with, whatever the search_path is later.
POINT = """
DO $point$
DECLARE
    v_item record;
BEGIN
    FOR v_item IN
        SELECT d.adrelid::regclass AS relation, a.attname
        FROM pg_attrdef AS d
        JOIN pg_class AS c ON c.oid = d.adrelid
        JOIN pg_attribute AS a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
        WHERE c.relname LIKE 'pgqueue\\_%' AND pg_table_is_visible(c.oid)
            AND replace(pg_get_expr(d.adbin, d.adrelid), '"', '') IN ('clock_timestamp()', '{before}.clock_timestamp()')
    LOOP
        EXECUTE format(
            'ALTER TABLE %s ALTER COLUMN %I SET DEFAULT {after}.clock_timestamp()', v_item.relation, v_item.attname);
    END LOOP;
    FOR v_item IN
        SELECT p.oid::regprocedure AS function, substr(s, length('search_path=') + 1) AS path
        FROM pg_proc AS p, unnest(p.proconfig) AS s
        WHERE p.proname LIKE 'pgqueue\\_%' AND pg_function_is_visible(p.oid) AND s LIKE 'search\\_path=%'
    LOOP
        EXECUTE format(
            'ALTER FUNCTION %s SET search_path = %s', v_item.function, replace(v_item.path, '{old}', '{new}'));
    END LOOP;
END $point$;
"""
FAKE = POINT.format(before="pg_catalog", after=SCHEMA, old=", pg_temp", new=f", {SCHEMA}, pg_catalog, pg_temp")
REAL = POINT.format(before=SCHEMA, after="pg_catalog", old=f", {SCHEMA}, pg_catalog, pg_temp", new=", pg_temp")
IS_THERE = f"SELECT to_regnamespace('{SCHEMA}') IS NOT NULL"
PATH = "SELECT current_setting('search_path')"
SET_PATH = "SELECT set_config('search_path', %s, %s)"
SET = f"SELECT setval('{SCHEMA}.microseconds', %s)"

# The aliases of databases whose clock is frozen.
_frozen: set[str] = set()


class Clock:
    """Move both clocks. ``now``: the time that they show, in UTC."""

    def __init__(self, using: str, now: datetime, python: Any) -> None:
        self._using = using
        self._python = python
        self.now = now

    def move_to(self, moment: datetime) -> datetime:
        """Move both clocks to this moment (aware), later or earlier. Returns it."""
        self.now = checked_moment(moment)
        call(self._using, SET, ((self.now - EPOCH) // MICROSECOND,))
        self._python.move_to(self.now)
        # Messages that are settled from now on need the archive's partition of that day.
        make_partitions(using=self._using)
        return self.now

    def tick(self, delta: timedelta = timedelta(seconds=1)) -> datetime:
        """Move both clocks forward by ``delta``. Returns the new time."""
        return self.move_to(self.now + (checked_duration(delta, "delta") or timedelta(0)))


class DjangosClock:
    """Replace ``django.utils.timezone.now``."""

    def __init__(self) -> None:
        self.now = datetime.now(UTC)

    def move_to(self, moment: datetime) -> None:
        """Show ``moment`` from now on."""
        self.now = moment

    def __call__(self) -> datetime:
        return self.now if settings.USE_TZ else timezone.make_naive(self.now)


@contextmanager
def freeze_clock(moment: datetime | None = None, *, using: str | None = None) -> Iterator[Clock]:
    """Freeze both clocks at ``moment`` until the block ends. Yields a :class:`Clock`.

    ``moment``: an aware datetime; default: now. ``using``: database alias; default: the queue's.

    PostgreSQL's clock is frozen for the queue's functions in all sessions, and for ``now()``, ``clock_timestamp()`` and
    Django's ``Now()`` on the test's connection. Python's clock is frozen completely if time-machine is installed, else
    only ``django.utils.timezone.now``. Raises RuntimeError outside of tests.
    """
    if not hasattr(mail, "outbox"):
        raise RuntimeError("freeze_clock is for tests: it changes the functions of the queue in the database.")
    database = alias(using)
    now = checked_moment(moment or datetime.now(UTC))
    with ExitStack() as stack:
        stack.enter_context(frozen(connections[database]))
        clock = Clock(database, now, stack.enter_context(python_clock(now)))
        clock.move_to(now)
        yield clock


def checked_moment(moment: datetime) -> datetime:
    """Return the moment in UTC. Raises InvalidMessage unless it is an aware datetime."""
    if not isinstance(moment, datetime):
        raise InvalidMessage(f"the clock shows moments, not {type(moment).__name__}", hint="Pass an aware datetime.")
    return aware(moment, "the moment").astimezone(UTC)  # type: ignore[union-attr]  # only None becomes None


@contextmanager
def python_clock(now: datetime) -> Iterator[Any]:
    """Freeze Python's clock at ``now``, an aware datetime. Yields an object whose ``move_to`` moves it.

    With the package time-machine all clocks of Python stop, without it only ``django.utils.timezone.now``.
    """
    try:
        import time_machine
    except ImportError:
        with mock.patch.object(timezone, "now", DjangosClock()) as clock:
            yield clock
    else:
        with time_machine.travel(now, tick=False) as traveller:
            yield traveller


@contextmanager
def frozen(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Make the queue read its time from the sequence of the schema pgqueue_clock. Raises RuntimeError if it does."""
    using = connection.alias
    in_test = connection.in_atomic_block
    if using in _frozen:
        raise RuntimeError("The clock is frozen already: move the one that there is.")
    with ExitStack() as stack:
        if not in_test:
            stack.enter_context(lock_held(connection))
        if call(using, IS_THERE)[0][0]:
            # Left by a test that was killed.
            execute_all(connection, REAL, DROP)
        stack.callback(_frozen.discard, using)
        _frozen.add(using)
        [(path,)] = call(using, PATH)
        execute_all(connection, MAKE.format(held="true" if in_test else HELD), FAKE)
        call(using, SET_PATH, (", ".join(filter(None, [path, SCHEMA, "pg_catalog"])), in_test))
        try:
            yield
        finally:
            if not is_broken(connection):
                call(using, SET_PATH, (path, in_test))
                execute_all(connection, REAL, DROP)


@contextmanager
def lock_held(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Hold the lock of the frozen clock in another session, because the test's own session may be closed.

    Raises RuntimeError if another process holds the lock.
    """
    keeper = connection.copy()
    keeper.settings_dict["OPTIONS"].pop("pool", None)
    keeper.connect()
    try:
        [(mine,)] = keeper.connection.execute(f"SELECT pg_try_advisory_lock({LOCK})").fetchall()
        if not mine:
            raise RuntimeError("The clock of this database is frozen already, by another process.")
        yield
    finally:
        keeper.close()


def is_broken(connection: BaseDatabaseWrapper) -> bool:
    """Return whether the transaction of the test can only be rolled back, and with it the changes of the clock."""
    if not connection.in_atomic_block:
        return False
    if connection.needs_rollback:
        return True
    try:
        call(connection.alias, IS_THERE)
    except DatabaseError:
        return True
    return False


def execute_all(connection: BaseDatabaseWrapper, *statements: str) -> None:
    """Run all of the statements, or none."""
    with connection.schema_editor(atomic=True) as editor:
        for statement in statements:
            editor.execute(statement, params=None)
