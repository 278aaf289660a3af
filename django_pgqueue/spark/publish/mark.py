"""The mark of a published lake: whose copy the target is, and the commit that it has."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, field

from django_pgqueue.spark.errors import PipelineError
from django_pgqueue.spark.lake import Commit, LakeFile, ParquetLake
from django_pgqueue.spark.lake.folder import CONTROL
from django_pgqueue.spark.publish.target import Target

MARK = f"{CONTROL}/published.json"
COMMITS = f"{CONTROL}/commits"
FORMAT = 1


@dataclass(frozen=True, slots=True)
class PublishedLake:
    """The content of the target. ``marked``: it has the mark of this lake. ``newest``: its newest commit, ``text``: the
    content of that file; number 0 and "" when there is none.
    """

    marked: bool
    newest: Commit = field(default_factory=lambda: Commit(0, "none", ""))
    text: str = ""

    @property
    def files(self) -> dict[str, LakeFile]:
        """Return the files that the newest commit lists, by path."""
        return {file.path: file for file in self.newest.files}

    @classmethod
    def look_at(cls, target: Target, lake: ParquetLake, present: dict[str, int]) -> PublishedLake:
        """Read the mark and the newest commit of a target that has these files.

        Raises PipelineError if the target holds another lake or anything else, or a newer commit than the lake.
        """
        if MARK not in present:
            if present:
                raise PipelineError(
                    f"{target.url} holds other files, and no published lake: give a prefix that is empty."
                )
            return cls(False)
        check_mark(target, lake)
        commits = sorted(path for path in present if path.startswith(f"{COMMITS}/") and path.endswith(".json"))
        text = target.read(commits[-1]) if commits else None
        if text is None:
            return cls(True)
        try:
            newest = Commit.from_json(json.loads(text))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise PipelineError(f"{target.url}/{commits[-1]} is damaged: delete it and run it again.") from None
        check_line(target, lake, newest)
        return cls(True, newest, text)

    def claim(self, target: Target, lake: ParquetLake) -> None:
        """Write the mark of the lake, before anything else."""
        if not self.marked:
            mark = {"format": FORMAT, "lake": lake.description.name}
            target.write(MARK, json.dumps(mark, indent=1))
            check_mark(target, lake)

    def commit(self, target: Target, commit: Commit) -> None:
        """Write a commit, unless the target has it. From then on readers of commits see it."""
        text = json.dumps(commit.as_json(), indent=1)
        if text != self.text:
            target.write(commit_path(commit.number), text)


def update(target: Target, path: str, text: str, present: Collection[str]) -> None:
    """Write a small file, unless the target has it. ``present``: the files there.

    A file that is not there is not asked for: without the right to list the whole bucket, S3 answers that with 403.
    """
    if path not in present or target.read(path) != text:
        target.write(path, text)


def check_mark(target: Target, lake: ParquetLake) -> None:
    """Raise PipelineError if the target is not marked as a copy of this lake."""
    try:
        mark = json.loads(target.read(MARK) or "{}")
        owner, version = mark["lake"], mark["format"]
    except (ValueError, KeyError, TypeError):
        raise PipelineError(
            f"{target.url}/{MARK} is not the mark of a published lake: look at --to and --endpoint."
        ) from None
    if owner != lake.description.name:
        raise PipelineError(
            f"{target.url} belongs to the lake {owner}, and this one is {lake.description.name}: "
            "give each lake a prefix of its own."
        )
    if version > FORMAT:
        raise PipelineError(f"{target.url} was published by a newer version of pgqueue-django: use that one.")


def check_line(target: Target, lake: ParquetLake, newest: Commit) -> None:
    """Raise PipelineError if the target's commit is not one of this lake: the lake was restored from a backup."""
    same = True
    if newest.number in lake.commit_numbers():
        same = lake.commit(newest.number).at == newest.at
    if newest.number > lake.head.number or not same:
        raise PipelineError(
            f"{target.url} has commit {newest.number:,} of {newest.at}, which the lake in {lake.path} has not: it was "
            "restored from a backup, or is an old copy. Publish to an empty prefix."
        )


def commit_path(number: int) -> str:
    """Return the path of a commit in the target."""
    return f"{COMMITS}/{number:08}.json"
