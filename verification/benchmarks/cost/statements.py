"""Where the time goes: the functions that a loop calls and the statements inside them, by the server's own counters."""

from __future__ import annotations

import re
from dataclasses import dataclass

import psycopg

from django_pgqueue.embedded import find_binaries
from verification.benchmarks.cluster import Cluster
from verification.benchmarks.measure import Run

from . import loop
from .report import table
from .stations import BATCH, CALLS_OF_A_BATCH, CHANNELS, Calls, Station, many, one

LIBRARY = "pg_stat_statements"
MISSING = f"No table by statement: this PostgreSQL has no {LIBRARY} (a package of its contributed modules brings it)."
LEAST = 0.01  # of the time: what takes less is not in the table
WIDTH = 70  # characters of a statement
COUNT = """
SET pg_stat_statements.track = 'all';
SET track_functions = 'all';
SELECT pg_stat_reset(), pg_stat_statements_reset();
"""
FUNCTIONS = """
SELECT f.funcname, f.calls, f.total_time, f.self_time, p.prosrc
  FROM pg_stat_user_functions AS f JOIN pg_proc AS p ON p.oid = f.funcid
 ORDER BY f.self_time DESC
"""
STATEMENTS = """
SELECT query, calls, total_exec_time
  FROM pg_stat_statements
 WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) AND NOT toplevel
 ORDER BY total_exec_time DESC
"""
TRIGGERED = """
SELECT DISTINCT event_manipulation || ' ' || event_object_table FROM information_schema.triggers
"""
# Where plpgsql has blanked out a target, and where a constant was.
GAP = r"\s+(?:INTO\s+(?:STRICT\s+)?[\w.]+(?:\s*,\s*[\w.]+)*\s+)?"
CONSTANT = r"(?:'(?:[^']|'')*'|[\w.]+)"


@dataclass(frozen=True, slots=True)
class Function:
    """`total` and `own` are ms in all; what the functions it calls have taken is not its own."""

    name: str
    calls: int
    total: float
    own: float
    source: str


@dataclass(frozen=True, slots=True)
class Statement:
    """`total` is ms in all, from the first row to the last: starting it and the plpgsql around it are not in it."""

    text: str
    calls: int
    total: float


@dataclass(frozen=True, slots=True)
class Profile:
    functions: tuple[Function, ...]
    statements: tuple[Statement, ...]
    triggered: frozenset[str]

    def place(self, statement: Statement) -> str:
        """Return the function that holds the statement and its line there; "" if it is in none or built at run time."""
        pattern = re.compile(GAP.join(map(_with_constants, statement.text.split())), re.IGNORECASE)
        for function in self.functions:
            if found := pattern.search(function.source):
                return f"{function.name}:{function.source[: found.start()].count(chr(10))}"
        return ""

    def calls_others(self, statement: Statement) -> bool:
        """Whether functions or triggers run inside it: their statements are counted in it once more."""
        names = {function.name for function in self.functions}
        written = re.match(r"(INSERT) INTO (\w+)|(UPDATE) (\w+)|(DELETE) FROM (\w+)", statement.text, re.IGNORECASE)
        fires = written and " ".join(part for part in written.groups() if part) in self.triggered
        return bool(fires) or bool(names & set(re.findall(r"(\w+)\s*\(", statement.text)))


def preload() -> dict[str, str]:
    """Return the settings with which the server counts statements, if it can."""
    here = any((find_binaries().folder.parent / "lib").rglob(f"{LIBRARY}.*"))
    return {"shared_preload_libraries": LIBRARY, "pg_stat_statements.track": "none"} if here else {}


def report(cluster: Cluster, calls: Calls, turns: int, *, markdown: bool) -> str:
    """Run the loops of one design once more, counting; its times include what counting costs."""
    if not preload():
        return MISSING
    parts = []
    for channels in CHANNELS:
        batches = turns // CALLS_OF_A_BATCH
        for station, messages in (
            (one(calls, channels, turns), turns),
            (many(calls, channels, batches), batches * BATCH),
        ):
            try:
                profile = take(cluster, station)
            except (psycopg.errors.UndefinedFile, psycopg.errors.FeatureNotSupported):
                return MISSING
            title = f"{calls.name}, {station.name}, {channels:,} channel{'s' if channels > 1 else ''}"
            parts.append(f"{title}\n\n{tables(profile, messages, markdown=markdown)}")
    return "\n\n".join(parts)


def take(cluster: Cluster, station: Station) -> Profile:
    counted: list[Profile] = []

    def before(run: Run) -> None:
        run.connection.execute(f"CREATE EXTENSION {LIBRARY}")
        psycopg.ClientCursor(run.connection).execute(COUNT)

    def after(run: Run) -> None:
        run.connection.execute("SET pg_stat_statements.track = 'none'")
        run.connection.execute("SELECT pg_stat_force_next_flush()")
        counted.append(
            Profile(
                tuple(Function(*row) for row in run.connection.execute(FUNCTIONS)),
                tuple(Statement(*row) for row in run.connection.execute(STATEMENTS)),
                frozenset(row[0] for row in run.connection.execute(TRIGGERED)),
            )
        )

    station.visit(cluster, before, after)
    return counted[0]


def tables(profile: Profile, messages: int, *, markdown: bool) -> str:
    """Two tables, by function and by statement, a message; the warm-up of the loop counts with it."""
    each = messages + messages // loop.WARM_UP
    whole = sum(function.own for function in profile.functions) or 1.0
    functions: list[tuple[str, ...]] = [
        ("function", "lines", "calls a message", "µs a call", "own µs a message", "share")
    ]
    for found in profile.functions:
        if found.own / whole >= LEAST:
            functions.append((
                found.name, str(found.source.count("\n")), f"{found.calls / each:.2f}",
                f"{found.total / found.calls * 1e3:.1f}", f"{found.own / each * 1e3:.1f}", f"{found.own / whole:.0%}",
            ))  # fmt: skip
    statements: list[tuple[str, ...]] = [
        ("function:line of its body", "calls a message", "µs a call", "µs a message", "share", "statement")
    ]
    for counted in profile.statements:
        place = profile.place(counted)
        if place and counted.total / whole >= LEAST:
            also = ", and what it calls" if profile.calls_others(counted) else ""
            statements.append((
                place, f"{counted.calls / each:.2f}", f"{counted.total / counted.calls * 1e3:.1f}",
                f"{counted.total / each * 1e3:.1f}", f"{counted.total / whole:.0%}{also}",
                " ".join(counted.text.split())[:WIDTH],
            ))  # fmt: skip
    lines = sum(found.source.count("\n") for found in profile.functions)
    running = sum(s.total for s in profile.statements if profile.place(s) and not profile.calls_others(s))
    summary = (
        f"{len(profile.functions)} functions, {lines:,} lines, {whole / each * 1e3:.1f} µs a message, of which "
        f"statements ran for {running / each * 1e3:.1f}: the rest is mostly starting them, and plpgsql."
    )
    return "\n".join([table(functions, markdown=markdown), "", summary, "", table(statements, markdown=markdown)])


def _with_constants(word: str) -> str:
    return CONSTANT.join(re.escape(part) for part in re.split(r"\$\d+", word))
