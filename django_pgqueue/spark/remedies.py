"""Say what is wrong with a lake, and what is left to do about it: not each remedy helps each problem."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import date

from django_pgqueue.spark.export.comparison import NAMES, DayComparison
from django_pgqueue.spark.lake import Lake, LakeFile
from django_pgqueue.spark.lake.files import day_of
from django_pgqueue.spark.schema import TABLES

# Tables that the rollup can compute anew.
COMPUTED = ("metrics",)

REMOVE = "Remove the files that no version knows."
RESCAN = (
    "Remove damaged files, if there are any, then run `export --rescan`: it adds the rows that the database still has."
)
ROLLUP = "Remove damaged files of metrics, then run `rollup --all`: it computes them anew."
ASK = (
    "Name the database with --source: then this command says which rows it still has. `export --rescan` adds these, "
    "once damaged files are removed."
)
COPY = (
    "{days}: the database does not have these rows any more. Copy the files to their places from a backup of the lake, "
    "or from its published copy before the next `publish`; this command compares them with their names. Without a copy "
    "the rows are lost: remove damaged files, and accept the loss with `verify --forget-missing`."
)
FOREIGN = (
    "Rows that only the lake has: if a tenant was erased in the database, run `pgqueue lake erase`, too. If the server "
    "lost commits in a failover, remove the files of the days since then and run `export --rescan`. Rows that were "
    "deleted in the database by hand stay in the lake; `--since` leaves their days out."
)
LOST = (
    "Messages that retention has dropped are in a backup of the database only. Accept the loss as the owner of the "
    "tables: UPDATE pgqueue_lake SET lost = '{{}}' WHERE name = '{name}';"
)


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of a lake. ``remedy``: what to do; ``days``: what it concerns, where the remedy names that."""

    text: str
    remedy: str
    days: str = ""


def problem_of_file(
    lake: Lake, path: str, text: str, there: Collection[tuple[str, date]] | None, *, unknown: bool
) -> Problem:
    """Return the problem of a file of a lake. ``there``: tables and days that the database has; None: not known."""
    table, _, rest = path.partition("/")
    text = f"{lake.path / path}: {text}"
    if unknown:
        return Problem(text, REMOVE)
    if table in COMPUTED:
        return Problem(text, ROLLUP)
    day = day_of(rest.rpartition("/")[0])
    if there is None and table in NAMES:
        return Problem(text, ASK)
    if there is not None and (table, day) in there:
        return Problem(text, RESCAN)
    return Problem(text, COPY, f"{NAMES.get(table, 'channels')} of {day}")


def problems_of_day(day: DayComparison, *, pruned: bool) -> Iterator[Problem]:
    """Yield the problems of a day that lake and database have. ``pruned``: the retention of a queue has deleted rows of
    it.
    """
    name = f"{NAMES[day.table]} of {day.day}"
    rows = " rows" if day.table == "archive" else ""
    both = f"{name}: the lake has {day.here:,}{rows}, the database {day.there:,}"
    wrong = day.here - day.kept
    # Retention deletes dead letters one by one, and an archive as a whole, unless a queue has its own.
    foreign = 0 if pruned or day.table == "dead_letter" else day.foreign - wrong
    if lacking := len(day.lacking):
        others = f"; {wrong:,} of the lake have ids of other messages" if wrong else ""
        yield Problem(f"{both}: the lake lacks {lacking:,} of these{others}.", RESCAN)
    if foreign:
        yield Problem(f"{both}, which does not have {foreign:,} of these.", FOREIGN)
    if day.doubled:
        yield Problem(f"{both}: {day.doubled:,} are in the lake more than once.", FOREIGN)
    if day.here != day.counted and not lacking and not day.unreadable:
        yield Problem(f"{name}: the files have {day.here:,} rows, the log of the table counts {day.counted:,}.", RESCAN)


def lost_messages(name: str, text: str) -> Problem:
    """Return the problem that retention has dropped messages before the lake of this name had them."""
    return Problem(text, LOST.format(name=name.replace("'", "''")))


def remedies(problems: Iterable[Problem]) -> list[str]:
    """Return each remedy once, in the order of the problems, with what it concerns."""
    days: dict[str, list[str]] = {}
    for problem in problems:
        known = days.setdefault(problem.remedy, [])
        if problem.days and problem.days not in known:
            known.append(problem.days)
    return [remedy.format(days=", ".join(known)) if known else remedy for remedy, known in days.items()]


def forget_missing(lake: Lake, since: date) -> str:
    """Take missing files of messages, dead letters and channels out of their tables. Returns what was forgotten.

    ``since``: files of older days stay listed.
    """
    forgotten: list[LakeFile] = []
    with lake.writing() as writing:
        for table in TABLES:
            files = [file for file in lake.files(table) if file.day >= since and not (lake.path / file.path).exists()]
            if files and table not in COMPUTED:
                writing.commit(table, "forget", remove=files)
                forgotten += files
    rows = sum(file.rows for file in forgotten)
    days = sorted({f"{file.table} of {file.day}" for file in forgotten})
    return f"Forgot {len(forgotten):,} missing files, {rows:,} rows{': ' if days else ''}{', '.join(days)}."
