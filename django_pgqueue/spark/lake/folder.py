"""The folder of a lake: its description and its commits."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from django_pgqueue.spark import schema
from django_pgqueue.spark.errors import PipelineError
from django_pgqueue.spark.lake import durable
from django_pgqueue.spark.lake.commit import NOTHING, Commit

CONTROL = "_pgqueue"
PREPARED = ".prepared"


@dataclass(frozen=True, slots=True)
class LakeDescription:
    """The content of lake.json.

    ``name`` identifies the lake for the database, wherever it is moved to; ``system_identifier`` and ``database`` are
    those of the database whose rows it holds, empty until the first export.
    """

    format: int
    name: str
    created_at: str
    system_identifier: str = ""
    database: str = ""
    without: tuple[str, ...] = ()


class LakeFolder:
    """The part of a lake that readers and the writer share: its description and its commits."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def control(self) -> Path:
        return self.path / CONTROL

    @property
    def commits(self) -> Path:
        return self.control / "commits"

    @property
    def staging(self) -> Path:
        return self.control / "staging"

    @property
    def description(self) -> LakeDescription:
        """Read ``lake.json``. Raises PipelineError if it is damaged, or of a newer format than this version knows."""
        path = self.control / "lake.json"
        content = read_json(path)
        if content.get("format", 0) > schema.FORMAT:
            raise PipelineError(
                f"The lake in {self.path} has format {content['format']}, this version knows {schema.FORMAT}: "
                "use the version of pgqueue-django that wrote it, or a newer one."
            )
        try:
            return LakeDescription(**(content | {"without": tuple(content.get("without", ()))}))
        except TypeError as error:
            raise damaged(path, error) from None

    def describe(self, **changes: Any) -> None:
        """Change lake.json. Only the writer of the lake may call this."""
        described = asdict(replace(self.description, **changes))
        if described != asdict(self.description):
            durable.replace(self.control / "lake.json", described)

    @property
    def head(self) -> Commit:
        """Return the newest commit; its number is 0 when there is none.

        A commit whose run was killed before all of its files were in their places is a commit: `settle` completes it.
        """
        number = max(self.commit_numbers(), default=0)
        return self.commit(number) if number else NOTHING

    @property
    def state(self) -> dict[str, Any]:
        return self.head.state

    def commit_numbers(self) -> list[int]:
        """Return the numbers of all commits, the oldest first, with the one whose files are being placed."""
        try:
            files = os.listdir(self.commits)
        except FileNotFoundError:
            files = []
        names = (name[:-5].removesuffix(PREPARED) for name in files)
        return sorted({int(name) for name in names if name.isdigit()})

    def commit(self, number: int) -> Commit:
        """Read a commit. Raises PipelineError if it is missing or damaged."""
        path = self.prepared_path(number)
        if self.is_confirmed(number) or not path.exists():
            path = self.commit_path(number)
        try:
            return Commit.from_json(read_json(path))
        except PipelineError:
            if path != self.commit_path(number) and self.is_confirmed(number):
                return self.commit(number)  # it was renamed at this moment
            raise
        except (KeyError, TypeError) as error:
            raise damaged(path, error) from None

    def commit_path(self, number: int) -> Path:
        """Return the path of a commit's file."""
        return self.commits / f"{number:08}.json"

    def prepared_path(self, number: int) -> Path:
        """Return the path of a commit that is decided, but whose files are not all in their places yet."""
        return self.commits / f"{number:08}{PREPARED}.json"

    def is_confirmed(self, number: int) -> bool:
        """Return whether all files of a commit were moved to their places. There is no commit 0."""
        return number == 0 or self.commit_path(number).exists()

    def confirm(self, number: int) -> None:
        """Give a prepared commit its final name. Only the writer of the lake may call this."""
        if not self.is_confirmed(number):
            self.prepared_path(number).rename(self.commit_path(number))
            durable.sync_to_disk(self.commits)


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object from a file. Raises PipelineError if the file is missing or has anything else."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise damaged(path, error) from None
    if not isinstance(content, dict):
        raise damaged(path, "no JSON object")
    return content


def damaged(path: Path, error: object) -> PipelineError:
    """Return the error for a file of the lake that cannot be read."""
    return PipelineError(f"{path} cannot be read ({error}): the lake is damaged, restore it from a backup.")
