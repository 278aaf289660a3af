"""The page on performance is a page of figures: each table has its command, its machine and its meaning."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import cast

import pytest

from tests.support.markdown import page
from tests.support.paths import REPOSITORY
from verification.benchmarks import __main__ as benchmarks
from verification.benchmarks.cluster import Cluster
from verification.benchmarks.cost.command import arguments as cost
from verification.benchmarks.peers.command import arguments as peers
from verification.benchmarks.peers.lines import lines_table
from verification.benchmarks.plan import QUICK, Plan
from verification.benchmarks.scale.command import arguments as scale
from verification.benchmarks.spark.command import arguments as spark
from verification.benchmarks.workloads import WORKLOADS

PROGRAM = "python -m verification.benchmarks"
PARSERS = {"peers": peers, "cost": cost, "spark": spark, "scale": scale}
TARGETS = set(re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
LABEL = {what: re.compile(rf"\*{what}s?[:.]\*") for what in ("Command", "Machine", "Meaning")}
TABLE = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)
HEADING = re.compile(r"^(#+) +(.+)$", re.MULTILINE)
FIGURE = re.compile(r"\d[\d,.]*\d|\d")
TEXT = page("docs/explanation/performance.md")


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with the text up to the next heading of any level; `above`: the sections that it is part of."""

    level: int
    title: str
    text: str
    above: tuple[Section, ...]

    @property
    def anchor(self) -> str:
        return re.sub(r"[^\w\- ]", "", self.title.lower()).replace(" ", "-")

    def says(self, what: str) -> bool:
        return any(LABEL[what].search(part.text) for part in (self, *self.above))


def sections(text: str) -> list[Section]:
    found: list[Section] = []
    path: list[Section] = []
    headings = list(HEADING.finditer(text))
    for heading, after in zip(headings, [*headings[1:], None], strict=True):
        level = len(heading[1])
        path = [above for above in path if above.level < level]
        content = text[heading.end() : after.start() if after else len(text)]
        found.append(Section(level, heading[2], content, tuple(path)))
        path.append(found[-1])
    return found


def has_command(section: Section, table: re.Match[str]) -> bool:
    """Whether the text before the table, or behind it, up to the next table, or a section above has a command."""
    tables = list(TABLE.finditer(section.text))
    place = next(number for number, other in enumerate(tables) if other.start() == table.start())
    begin = tables[place - 1].end() if place else 0
    end = tables[place + 1].start() if place + 1 < len(tables) else len(section.text)
    around = (section.text[begin : table.start()], section.text[table.end() : end], *(up.text for up in section.above))
    return any(LABEL["Command"].search(part) for part in around)


def leads_to_figures(table: str, known: dict[str, Section]) -> bool:
    """Whether each row is a summary: its first cell leads to a section that has a command."""
    rows = table.splitlines()[2:]
    links = [re.match(r"\| \[[^]]+\]\(#([\w-]+)\)", row) for row in rows]
    return all(link and link[1] in known and known[link[1]].says("Command") for link in links)


def lacking(text: str) -> list[str]:
    found = sections(text)
    known = {section.anchor: section for section in found}
    missing = []
    for section in found:
        for table in TABLE.finditer(section.text):
            if leads_to_figures(table[0], known):
                continue
            head = f"{section.title}: {table[0].splitlines()[0]}"
            missing += [] if has_command(section, table) else [f"{head} has no command"]
            missing += [f"{head} has no {what.lower()}" for what in ("Machine", "Meaning") if not section.says(what)]
    return missing


def commands(text: str) -> list[str]:
    """Return the commands in code spans, and those in a column "Command" of a table, without the program's name."""
    spans = re.findall(r"`([^`]+)`", text)
    found = [" ".join(span.split()) for span in spans if span.startswith(("python -m", "make "))]
    for table in TABLE.findall(text):
        head, _, *rows = (line.strip("|").split("|") for line in table.splitlines())
        if "Command" in (names := [name.strip() for name in head]):
            cells = (row[names.index("Command")] for row in rows)
            found += [f"{PROGRAM} {span}" for cell in cells for span in re.findall(r"`([^`]+)`", cell)]
    return found


def check(command: str) -> None:
    """Raise if the program does not know a workload or an option of the command, or if it would measure nothing."""
    given = shlex.split(command)
    if given[0] == "make":
        unknown = {target for target in given[1:] if "=" not in target} - TARGETS
        assert not unknown, f"there is no make {' '.join(unknown)}"
        return
    assert command.startswith(PROGRAM), command
    given = given[3:]
    if given[:1] and given[0] in PARSERS:
        PARSERS[given[0]](given[1:])
        return
    chosen = benchmarks.arguments(given)
    if chosen.only:
        plan = Plan(cast(Cluster, None), 1, 1, 1_000, QUICK, ())
        contests = [contest.only(chosen.only) for name in chosen.names for contest in WORKLOADS[name](plan)]
        assert any(contests), f"no contestant of {command}"


def test_each_table_has_its_command_its_machine_and_its_meaning() -> None:
    assert len(TABLE.findall(TEXT)) > 15
    assert lacking(TEXT) == []


@pytest.mark.parametrize("command", sorted(set(commands(TEXT))))
def test_a_command_of_the_page_can_be_given(command: str) -> None:
    check(command)


def test_the_first_table_has_the_figures_of_the_sections_that_it_leads_to() -> None:
    known = {section.anchor: section for section in sections(TEXT)}
    rows = TABLE.findall(known["is-it-fast-enough"].text)[0].splitlines()[2:]
    assert len(rows) > 5
    for row in rows:
        _, question, answer, _ = row.split("|")
        anchor = re.search(r"\(#([\w-]+)\)", question)
        assert anchor
        assert FIGURE.findall(answer)
        assert set(FIGURE.findall(answer)) <= set(FIGURE.findall(known[anchor[1]].text)), question


def test_the_page_names_many_commands() -> None:
    assert len(set(commands(TEXT))) > 15


def test_the_lines_of_programs_are_those_of_today() -> None:
    assert lines_table(markdown=True) in TEXT


def section_with(text: str) -> str:
    return f"# Page\n\n## Drain\n\n{text}\n"


FIGURES = "| Who | Rate |\n|---|---|\n| ours | 1 |\n"
COMMAND = "*Command:* `make bench`. *Machine:* two cores.\n\n"
MEANING = "\n*Meaning.* It is fast.\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (COMMAND + FIGURES + MEANING, []),
        (FIGURES + "\n" + COMMAND + MEANING, []),
        (f"{COMMAND}{MEANING}\n### With a limit\n\n{FIGURES}", []),
        (FIGURES + MEANING, ["command", "machine"]),
        (COMMAND + FIGURES, ["meaning"]),
        (f"{COMMAND}{FIGURES}{MEANING}\n\n{FIGURES}", ["command"]),
        (f"{FIGURES}\nAnd:\n\n{FIGURES}\n{COMMAND}{MEANING}", ["command"]),
        (f"{COMMAND}{FIGURES}{MEANING}\n\n## Enqueue\n\n{FIGURES}{MEANING}", ["command", "machine"]),
    ],
)
def test_a_table_without_them_is_found(text: str, expected: list[str]) -> None:
    assert [line.rpartition(" ")[2] for line in lacking(section_with(text))] == expected


def test_a_summary_must_lead_to_figures_with_a_command() -> None:
    summary = "| What | Measured |\n|---|---|\n| [Drain](#{}) | 1 |\n"
    assert lacking(section_with(COMMAND + FIGURES + MEANING) + "\n## Targets\n\n" + summary.format("drain")) == []
    assert lacking(section_with(COMMAND + FIGURES + MEANING) + "\n## Targets\n\n" + summary.format("gone")) != []


@pytest.mark.parametrize(
    "command",
    [
        "make bench-nothing",
        f"{PROGRAM} drains",
        f"{PROGRAM} drain --round 3 --speed",
        f"{PROGRAM} channels --only idle",
        f"{PROGRAM} peers --workload kills",
        f"{PROGRAM} peers --peers rabbit",
        f"{PROGRAM} cost --workload drain",
        f"{PROGRAM} spark --seconds 3",
        "python -m tests.benchmarks drain",
    ],
)
def test_a_command_that_cannot_be_given_is_found(command: str) -> None:
    with pytest.raises((SystemExit, AssertionError)):
        check(command)
