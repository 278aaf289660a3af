"""Define a rule: what it reads, how severe that is, and the words for it. The doctor and the system checks apply rules.

Each row that a rule reads is one finding. Rows only read, at a cost that does not grow with the archive or the backlog.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from enum import IntEnum
from string import Formatter
from typing import Any

from django.core.checks import CheckMessage, Error
from django.core.checks import Warning as Caution

from django_pgqueue import handlers
from django_pgqueue.conf import settings
from django_pgqueue.limits import UNDECLARED
from django_pgqueue.redaction import printable, redact
from django_pgqueue.sql.call import call

AS_JSON = "SELECT to_jsonb(r)::text FROM ({}) AS r"
SHOWN_NAMES = 10
"""The most names in a text or in facts; the total is given beside them."""
# Any client may choose these, so they are shown without secrets to programs, too.
CHOSEN_BY_CLIENTS = {"application_name", "gid", "lake"}


class Severity(IntEnum):
    """Rank findings. The number is the exit status of ``pgqueue doctor``, as monitors understand it."""

    NOTE = 0
    WARNING = 1
    CRITICAL = 2

    @property
    def word(self) -> str:
        """Return the severity in lower case."""
        return self.name.lower()


NOTE, WARNING, CRITICAL = Severity.NOTE, Severity.WARNING, Severity.CRITICAL


@dataclass(frozen=True, slots=True)
class Finding:
    """Hold one problem and what to do about it.

    ``code``: a stable name of the problem. ``facts``: values for programs, as JSON; times are ISO 8601, durations
    seconds. They never contain queries, payloads or addresses.
    """

    code: str
    severity: Severity
    problem: str
    action: str
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Limits:
    """Set from where on something is reported.

    old_transaction      a transaction this old is a warning; from ``very_old_transaction`` on it is critical
    old_xids             transactions that a slot or a standby may be behind
    slot_bytes           write-ahead log that an inactive slot may keep
    dead_rows            in one table; ten times as many are critical
    bloat_bytes          tables and indexes that are smaller are not examined
    freeze_age           age of the oldest row in transactions, at most 2,000,000,000; twice as old is critical
    notify_usage         share of the NOTIFY queue; five times as much is critical
    waiting              None: the setting WAITING_WARNING
    unattended           after this time an expired lease, a schedule or a tick is late
    clock                difference of two clocks
    most                 messages, channels or rows that one examination reads
    """

    old_transaction: timedelta = timedelta(minutes=5)
    very_old_transaction: timedelta = timedelta(hours=1)
    old_xids: int = 1_000_000
    slot_bytes: int = 1 << 30
    dead_rows: int = 100_000
    bloat_bytes: int = 256 << 20
    freeze_age: int = 600_000_000
    notify_usage: float = 0.1
    waiting: timedelta | None = None
    unattended: timedelta = timedelta(minutes=1)
    clock: timedelta = timedelta(seconds=2)
    most: int = 10_000


Row = dict[str, Any]
Source = str | Callable[[str, Limits], Iterable[Row]]


@dataclass(frozen=True, slots=True)
class Rule:
    """Report the rows of a source.

    ``code``: that of the findings; a colon and a word follow it where a finding has several texts.
    ``severity``: that of the rows that have none in the column ``severity``. ``source``: SQL, with the parameters
    that ``parameters`` returns, or a function of the alias and the limits. If several rules have the same source, the
    column ``code`` says which rule a row is for; rows of rules that are not applied are left out. ``facts``: the names
    of the columns for programs.
    ``problem``, ``action``: templates, with the names of columns and parameters; see Words.
    """

    code: str
    severity: Severity
    source: Source
    facts: str
    problem: str
    action: str

    @property
    def name(self) -> str:
        """Return the code of the findings."""
        return self.code.partition(":")[0]


class Words(Formatter):
    """Fill a template: ``{name}`` is one line of text without secrets or a list, ``{seconds:age}`` ``3 min``,
    ``{bytes:size}`` ``12 MB``, ``{statement:raw}`` the text as it is."""

    def format_field(self, value: Any, format_spec: str) -> str:
        """Return a value as text."""
        match value, format_spec:
            case _, "age":
                return age_text(timedelta(seconds=value))
            case _, "size":
                return size_text(value)
            case _, "raw":
                return str(value)
            case list(), _:
                return list_text(value)
            case str() | None, _:
                return safe_name(value)
        return format(value, format_spec)


WORDS = Words()


def apply(rules: Iterable[Rule], using: str, limits: Limits) -> Iterator[Finding]:
    """Yield the findings of the rules. ``using``: database alias. A source of several rules is read once."""
    shared: dict[Source, dict[str, Rule]] = {}
    for rule in rules:
        shared.setdefault(rule.source, {})[rule.code] = rule
    given = parameters(using, limits)
    for source, by_code in shared.items():
        for row in source(using, limits) if callable(source) else read(source, using, given):
            code = row.get("code", next(iter(by_code)))
            if code in by_code:
                yield finding(by_code[code], row, given)


def finding(rule: Rule, row: Row, given: Row) -> Finding:
    """Return the finding of a row. ``given``: the parameters."""
    severity, columns = row.get("severity"), given | row
    return Finding(
        rule.name,
        rule.severity if severity is None else Severity(severity),
        WORDS.vformat(rule.problem, (), columns),
        WORDS.vformat(rule.action, (), columns),
        {name: fact(name, columns[name]) for name in rule.facts.split()},
    )


def read(sql: str, using: str, given: Row) -> list[Row]:
    """Return the rows of a statement, with the values of JSON."""
    return [json.loads(row) for (row,) in call(using, AS_JSON.format(sql), given)]


def parameters(using: str, limits: Limits) -> dict[str, Any]:
    """Return what SQL and templates may name."""
    named = {
        "database": using,
        "waiting": settings.WAITING_WARNING if limits.waiting is None else limits.waiting,
        "lease": settings.LEASE,
        "partitions": settings.PARTITIONS_AHEAD,
        "grace": settings.UNKNOWN_HANDLER_GRACE.total_seconds(),
        "handlers": handlers.names(),
        "undeclared": UNDECLARED,
    }
    return asdict(limits) | named


def fact(name: str, value: Any) -> Any:
    """Return a value of a row for programs."""
    match value:
        case list():  # the days of missing partitions have no total beside them
            return [fact(name, item) for item in (value if name == "missing" else value[:SHOWN_NAMES])]
        case dict():
            return {key: fact(key, item) for key, item in value.items()}
    return safe_name(value) if name in CHOSEN_BY_CLIENTS else value


def messages(rules: Iterable[Rule], using: str) -> list[CheckMessage]:
    """Return the findings of the rules as messages of a system check. ``using``: database alias."""
    return [message(found.code, found.problem, found.action) for found in apply(rules, using, Limits())]


def message(code: str, problem: str, hint: str) -> CheckMessage:
    """Return the message of a system check: an error if its code has an E, or else a warning."""
    return (Error if code.startswith("pgqueue.E") else Caution)(problem, hint=hint, id=code)


def safe_name(text: str | None) -> str:
    """Return a name that clients choose as one line of text without secrets."""
    return printable(redact(text or "?"))


def list_text(names: list[str]) -> str:
    """Return the names as ``a, b and 3 more``."""
    shown = ", ".join(safe_name(str(name)) for name in names[:SHOWN_NAMES])
    return f"{shown} and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else shown


def age_text(age: timedelta) -> str:
    """Return a duration as ``5 s``, ``3 min``, ``2 h 5 min`` or ``4 d 2 h``."""
    seconds = int(age.total_seconds())
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86_400
    if minutes < 1:
        return f"{seconds} s"
    if hours < 1:
        return f"{minutes} min"
    return f"{hours} h {minutes % 60} min" if days < 1 else f"{days} d {hours % 24} h"


def size_text(count: int) -> str:
    """Return a number of bytes as ``12 MB``; binary multiples."""
    for unit in ("bytes", "kB", "MB"):
        if count < 10_240:
            return f"{count} {unit}"
        count //= 1024
    return f"{count} GB"
