"""Call the verbs of a design in a DO loop: no client, no network and no fsync, so what is left is the server's CPU."""

from __future__ import annotations

from statistics import fmean

import psycopg

from tests.support.sessions import one

WARM_UP = 5  # one call of so many more is made before the others are measured
# Nanoseconds in which the backend could have run and another process had the processor.
WAITED = "split_part(pg_read_file('/proc/self/schedstat'), ' ', 2)::float8"

LOOP = """
DO $loop$
DECLARE
    r record;
    began timestamptz;
    ended timestamptz;
    waited float8;
    took float8;
{variables}
BEGIN
    FOR n IN 1..{calls} LOOP
{body}
    END LOOP;
{results}
END
$loop$
"""
# A wait that is longer than the call was before or after it, between two readings.
CALL = """
        waited := {waited};
        began := clock_timestamp();
        {statement};
        COMMIT;
        ended := clock_timestamp();
        waited := ({waited} - waited) / 1e9;
        took := date_part('epoch', ended - began);
        spent{number}[n] := took - CASE WHEN waited < took THEN waited ELSE 0 END;
"""


def calls(turns: int) -> int:
    """Return how many calls of each verb a loop makes: the measured ones and its warm-up."""
    return turns // WARM_UP + turns


def text(verbs: dict[str, str], turns: int) -> str:
    """Return the DO block that makes each call of `verbs` (plpgsql by name) in turn, and keeps how long each took.

    In a call, `n` is the number of the turn, and `r` what a call before it has selected. The time in
    which another process had the processor is not counted.
    """
    numbers = range(len(verbs))
    body = (
        CALL.format(statement=statement, number=number, waited=WAITED)
        for number, statement in enumerate(verbs.values())
    )
    return LOOP.format(
        calls=calls(turns),
        variables="\n".join(f"    spent{number} float8[] := '{{}}';" for number in numbers),
        body="".join(body),
        results="\n".join(f"    PERFORM set_config('cost.spent{n}', spent{n}::text, false);" for n in numbers),
    )


def run(connection: psycopg.Connection, verbs: dict[str, str], turns: int, messages: int = 1) -> dict[str, float]:
    """Return the µs that each verb took a message, commit included. `messages`: how many one call handles.

    The slowest hundredth of the calls is left out: a file that grows, or a host that stops the machine, would decide
    the mean of a short loop.
    """
    psycopg.ClientCursor(connection).execute(text(verbs, turns))
    spent = {}
    for number, verb in enumerate(verbs):
        query = f"SELECT (current_setting('cost.spent{number}')::float8[])[%s:]"
        calls_made = sorted(one(connection, query, turns // WARM_UP + 1))
        spent[verb] = fmean(calls_made[: len(calls_made) - len(calls_made) // 100]) / messages * 1e6
    return spent
