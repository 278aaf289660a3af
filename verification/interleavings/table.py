"""The answers as answers.md has them: everything that is not ·, in a few lines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .stage import FREE, RELATIONS, Stage
from .verbs import VERBS

PAGE = Path(__file__).parent / "answers.md"
Answers = Mapping[tuple[str, str], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Block:
    """A table of the page, under its heading."""

    heading: str
    isolation: str
    limits: str = "{}"
    awaited: bool = False

    def ask(self, stage: Stage) -> Answers:
        stage.isolation, stage.limits, stage.awaited = self.isolation, self.limits, self.awaited
        return {
            (one.name, other.name): tuple(stage.answer(one, other, relation) for relation in RELATIONS)
            for one in VERBS
            for other in VERBS
        }

    def lines(self, answers: Answers) -> list[str]:
        lines = [f"| First, open | Second | {' | '.join(RELATIONS)} |", "|---|---|---|---|---|"]
        for one in VERBS:
            groups: dict[tuple[str, ...], list[str]] = {}
            for other in VERBS:
                groups.setdefault(answers[one.name, other.name], []).append(other.name)
            for outcomes, others in groups.items():
                if set(outcomes) != {FREE}:
                    lines.append(f"| {one.name} | {', '.join(others)} | {' | '.join(outcomes)} |")
        return lines


LIMITED = '{"max_size": 100, "max_concurrency": 100}'
BLOCKS = (
    Block("READ COMMITTED", "read committed"),
    Block("Channels with max_size and max_concurrency", "read committed", LIMITED),
    Block("REPEATABLE READ", "repeatable read"),
    Block("Messages that another one waits for", "read committed", awaited=True),
)


def written(heading: str) -> list[str]:
    """The table under this heading of the page."""
    part = PAGE.read_text(encoding="utf-8").partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return [line for line in part.splitlines() if line.startswith("|")]


CROSSED = "In opposite order"


def crossed(stage: Stage) -> list[str]:
    """Pairs of calls that end in an error when two transactions do them in opposite order."""
    stage.isolation, stage.limits, stage.awaited = "read committed", "{}", False
    lines = ["| One call | Another | Ends one of them with |", "|---|---|---|"]
    for place, one in enumerate(VERBS):
        groups: dict[str, list[str]] = {}
        for other in VERBS[place:]:
            groups.setdefault(stage.crossed(one, other), []).append(other.name)
        lines += [f"| {one.name} | {', '.join(others)} | {codes} |" for codes, others in groups.items() if codes]
    return lines
