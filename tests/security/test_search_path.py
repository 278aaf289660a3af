"""A caller puts its own tables, functions and operators in front of those that the functions mean. None is found.

An object of the attacker that is run raises; tables in place of the queue's are empty, so that the answers differ.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from django_pgqueue.sql import files
from tests.security.story import Story
from tests.support.sessions import Session
from tests.support.tables import empty_tables

Login = Callable[..., Session]
DEFINERS = {name for name, version in files.latest_functions().items() if files.is_definer(name, version)}
TRIGGERS = {
    "pgqueue_message_arrived",
    "pgqueue_channel_changed",
    "pgqueue_schedule_changed",
    "pgqueue_dead_letter_added",
    "pgqueue_queue_changed",
    "pgqueue_limit_changed",
    "pgqueue_batch_joined",
    "pgqueue_after_committed",
    "pgqueue_after_dead_letter",
}
# One names nothing that could belong to another role. The others run inside functions whose path is fixed: no role may
# insert a dead letter or update a shared limit by itself.
OUT_OF_REACH = {
    "pgqueue_schedule_changed", "pgqueue_dead_letter_added", "pgqueue_limit_changed", "pgqueue_after_dead_letter",
}  # fmt: skip
HERE = Path(__file__).parent
EVIL = (HERE / "evil.sql").read_text()
SHADOWS = (HERE / "shadows.sql").read_text()


@pytest.fixture
def attacker(empty: Session, login: Login) -> Iterator[Callable[[], Session]]:
    """Sessions with everything in the way. They run all functions, so they may be granted all."""
    bodies = "".join(files.function_body(name, version) for name, version in files.latest_functions().items())
    used = ",".join(sorted(set(re.findall(r"\b([a-z]\w+)\(", bodies))))
    empty.execute("SELECT set_config('evil.used', %s, false)", [f"{{{used}}}"])
    empty.execute(EVIL)
    for made in ("pg_proc WHERE pronamespace", "pg_operator WHERE oprnamespace"):
        assert empty.execute(f"SELECT count(*) FROM {made} = 'evil'::regnamespace").fetchone()[0] > 100

    def attacker() -> Session:
        session = login("everything")
        session.execute(SHADOWS)
        session.execute("SET search_path = pg_temp, evil, pg_catalog, public")
        return session

    yield attacker
    empty.execute("SET client_min_messages = warning; DROP SCHEMA evil CASCADE")


def answers_of(session: Session, owner: Session) -> tuple[list[Any], set[str]]:
    empty_tables(owner)
    owner.execute("INSERT INTO pgqueue_channel (queue, name) VALUES ('default', 'default')")
    story = Story(session)
    return list(story.answers()), story.called


def test_no_function_finds_what_its_caller_puts_in_the_way(
    empty: Session, login: Login, attacker: Callable[[], Session]
) -> None:
    undisturbed, called = answers_of(login("everything"), empty)
    assert called == DEFINERS - TRIGGERS
    assert answers_of(attacker(), empty)[0] == undisturbed


def test_each_function_would_be_caught_if_its_path_were_not_fixed(
    empty: Session, login: Login, attacker: Callable[[], Session]
) -> None:
    """The attack is one: without its search_path every single function falls for it."""
    undisturbed, _ = answers_of(login("everything"), empty)
    assert answers_of(attacker(), empty)[0] == undisturbed
    missed = []
    for name in sorted(DEFINERS - OUT_OF_REACH):
        signature = empty.execute("SELECT %s::regproc::regprocedure::text", [name]).fetchone()[0]
        empty.execute(f"ALTER FUNCTION {signature} RESET search_path")
        try:
            with attacker() as session:
                if answers_of(session, empty)[0] == undisturbed:
                    missed.append(name)
        except psycopg.Error:
            continue  # 'caught', or a table that is not there
        finally:
            empty.execute(f"ALTER FUNCTION {signature} SET search_path = public, pg_temp")
    assert missed == []


def test_a_helper_is_reached_only_through_a_function_whose_path_is_fixed(empty: Session, login: Login) -> None:
    """A helper runs with the path and the rights of its caller, which can only be the owner."""
    rows = empty.execute(
        "SELECT proname, prosecdef, 'search_path=public, pg_temp' = ANY (coalesce(proconfig, '{}')),"
        " has_function_privilege('public', oid, 'EXECUTE') FROM pg_proc WHERE proname LIKE 'pgqueue%'"
    ).fetchall()
    assert {name for name, is_definer, _, _ in rows if is_definer} == DEFINERS
    assert {name for name, _, is_fixed, _ in rows if is_fixed} == DEFINERS
    assert [name for name, _, _, is_public in rows if is_public] == []
