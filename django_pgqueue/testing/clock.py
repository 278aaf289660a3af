"""Freeze the clock of the queue, in the transaction of a test, until the test moves it.

PostgreSQL searches a function in the schemas of its search_path, one after the other. The functions of the queue have a
path of their own; while the clock is frozen, a schema with other clocks stands in it before pg_catalog. Nothing of that
is committed: the rollback at the end of the test takes it away, whatever happens to the test.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from unittest import mock

from django.conf import settings
from django.core import mail
from django.db import DatabaseError, connections
from django.utils import timezone

from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.lifecycle.arguments import aware, checked_duration
from django_pgqueue.lifecycle.upkeep import make_partitions
from django_pgqueue.sql.call import alias, call

SCHEMA = "pgqueue_clock"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
# The time is in a sequence, because the rollback of a savepoint does not move it. It is the smallest number while the
# clock is not frozen.
MAKE = """
CREATE SCHEMA pgqueue_clock;
GRANT USAGE ON SCHEMA pgqueue_clock TO PUBLIC;
CREATE SEQUENCE pgqueue_clock.microseconds MINVALUE -9223372036854775808;
GRANT SELECT ON SEQUENCE pgqueue_clock.microseconds TO PUBLIC;
CREATE FUNCTION pgqueue_clock.clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_microseconds bigint := (SELECT s.last_value FROM pgqueue_clock.microseconds AS s);
BEGIN
    IF v_microseconds = -9223372036854775808 THEN
        RETURN pg_catalog.clock_timestamp();
    END IF;
    RETURN timestamptz 'epoch' + interval '1 us' * v_microseconds;
END $$;
CREATE FUNCTION pgqueue_clock.now() RETURNS timestamptz LANGUAGE sql STABLE AS 'SELECT pgqueue_clock.clock_timestamp()';
CREATE FUNCTION pgqueue_clock.transaction_timestamp() RETURNS timestamptz LANGUAGE sql STABLE
    AS 'SELECT pgqueue_clock.clock_timestamp()';
CREATE FUNCTION pgqueue_clock.statement_timestamp() RETURNS timestamptz LANGUAGE sql STABLE
    AS 'SELECT pgqueue_clock.clock_timestamp()';
DO $point$
DECLARE
    v_item record;
BEGIN
    -- A default keeps the function that it was created with, whatever the search_path is later.
    FOR v_item IN
        SELECT d.adrelid::regclass AS relation, a.attname
        FROM pg_attrdef AS d
        JOIN pg_class AS c ON c.oid = d.adrelid
        JOIN pg_attribute AS a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
        WHERE c.relname LIKE 'pgqueue\\_%' AND pg_table_is_visible(c.oid)
            AND replace(pg_get_expr(d.adbin, d.adrelid), '"', '') = 'clock_timestamp()'
    LOOP
        EXECUTE format(
            'ALTER TABLE %s ALTER COLUMN %I SET DEFAULT pgqueue_clock.clock_timestamp()',
            v_item.relation, v_item.attname);
    END LOOP;
    FOR v_item IN
        SELECT p.oid::regprocedure AS function, substr(s, length('search_path=') + 1) AS path
        FROM pg_proc AS p, unnest(p.proconfig) AS s
        WHERE p.proname LIKE 'pgqueue\\_%' AND pg_function_is_visible(p.oid) AND s LIKE 'search\\_path=%'
    LOOP
        EXECUTE format(
            'ALTER FUNCTION %s SET search_path = %s', v_item.function,
            replace(v_item.path, ', pg_temp', ', pgqueue_clock, pg_catalog, pg_temp'));
    END LOOP;
END $point$;
"""
IS_THERE = "SELECT to_regnamespace('pgqueue_clock') IS NOT NULL"
PATH = "SELECT current_setting('search_path')"
SET_PATH = "SELECT set_config('search_path', %s, true)"
SET = "SELECT setval('pgqueue_clock.microseconds', %s)"
RUNNING = -(2**63)

# The aliases of databases whose clock is frozen.
_frozen: set[str] = set()


class Clock:
    """Move the clock of the queue and ``django.utils.timezone.now``. ``now``: the time that both show, in UTC."""

    def __init__(self, using: str, now: datetime) -> None:
        self._using = using
        self.now = now

    def move_to(self, moment: datetime) -> datetime:
        """Move the clock to this moment (aware), later or earlier. Returns it."""
        self.now = checked_moment(moment)
        call(self._using, SET, ((self.now - EPOCH) // MICROSECOND,))
        # Messages that are settled from now on need the archive's partition of that day.
        make_partitions(using=self._using)
        return self.now

    def tick(self, delta: timedelta = timedelta(seconds=1)) -> datetime:
        """Move the clock forward by ``delta``. Returns the new time."""
        return self.move_to(self.now + (checked_duration(delta, "delta") or timedelta(0)))

    def _now(self) -> datetime:
        return self.now if settings.USE_TZ else timezone.make_naive(self.now)


@contextmanager
def freeze_clock(moment: datetime | None = None, *, using: str | None = None) -> Iterator[Clock]:
    """Freeze the clock of the queue at ``moment`` until the block ends. Yields a :class:`Clock`.

    ``moment``: an aware datetime; default: now. ``using``: database alias; default: the queue's.

    It is for the transaction of a TestCase. The clock stands still for the queue's functions, for ``now()``,
    ``clock_timestamp()`` and Django's ``Now()`` on the test's connection, and for ``django.utils.timezone.now``. Raises
    RuntimeError outside of the transaction of a test, and when it is frozen already.
    """
    database = alias(using)
    if database in _frozen:
        raise RuntimeError("The clock is frozen already: move the one that there is.")
    if not hasattr(mail, "outbox") or not connections[database].in_atomic_block:
        raise RuntimeError(
            "freeze_clock is for tests in a transaction, as TestCase and the fixture db make it: it changes functions "
            "of the queue until the rollback. In tests that commit, use drain(with_scheduled=True)."
        )
    clock = Clock(database, checked_moment(moment or datetime.now(UTC)))
    if not call(database, IS_THERE)[0][0]:
        with connections[database].schema_editor() as editor:
            editor.execute(MAKE, params=None)
    [(path,)] = call(database, PATH)
    call(database, SET_PATH, (", ".join(filter(None, [path, SCHEMA, "pg_catalog"])),))
    _frozen.add(database)
    try:
        with mock.patch.object(timezone, "now", clock._now):
            clock.move_to(clock.now)
            yield clock
    finally:
        _frozen.discard(database)
        # A transaction that has failed is rolled back, and with it all of this.
        with suppress(DatabaseError):
            call(database, SET, (RUNNING,))
            call(database, SET_PATH, (path,))


def checked_moment(moment: datetime) -> datetime:
    """Return the moment in UTC. Raises InvalidMessage unless it is an aware datetime."""
    if not isinstance(moment, datetime):
        raise InvalidMessage(f"the clock shows moments, not {type(moment).__name__}", hint="Pass an aware datetime.")
    return aware(moment, "the moment").astimezone(UTC)  # type: ignore[union-attr]  # only None becomes None
