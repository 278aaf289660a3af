"""Place the files of a commit, so that a program that reads the folders is never misled.

Such a program lists a folder and opens the files one by one. It does not know of commits. So new rows are added by the
rename of a whole file, and the commit file follows when all are there. Rows that are replaced are replaced in one step,
by an exchange of the folder of their partition. A new file never takes the name of an old one: DuckDB and polars open a
file twice, and would read the pages of the new file by the footer of the old one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from django_pgqueue.spark.lake import durable
from django_pgqueue.spark.lake.commit import Commit
from django_pgqueue.spark.lake.folder import LakeFolder


def place(lake: LakeFolder, commit: Commit) -> None:
    """Move, exchange and remove files until the folders match a commit. Repeating it changes nothing."""
    exchange_partitions(lake, commit)
    for file in commit.files:
        # A merged commit does not say where its files were.
        if file.staged and (lake.path / file.staged).exists():
            durable.move(lake.path / file.staged, lake.path / file.path)
    for folder in {
        lake.path / path for file in commit.files for path in (file.table, f"{file.table}/{file.partition}")
    }:
        durable.sync_to_disk(folder)
    if commit.files:
        durable.sync_to_disk(lake.path)
    lake.confirm(commit.number)
    for path in commit.vanished:
        (lake.path / path).unlink(missing_ok=True)


def exchange_partitions(lake: LakeFolder, commit: Commit) -> None:
    """Exchange the folders of partitions whose files are replaced by others.

    Where the system cannot do that, the files are moved one by one, and the old ones are removed afterwards: a reader
    may see rows twice in between.
    """
    for folder in commit.exchanged:
        file = next(file for file in commit.files if f"{file.table}/{file.partition}" == folder)
        staged = lake.path / file.staged
        if staged.exists() and durable.exchange(staged.parent, lake.path / folder):
            durable.sync_to_disk((lake.path / folder).parent)


def unplaced(lake: LakeFolder, commit: Commit) -> bool:
    """Return whether a run that decided on a commit could not place all of its files yet."""
    return (
        not lake.is_confirmed(commit.number)
        or any(file.staged and (lake.path / file.staged).exists() for file in commit.files)
        or any((lake.path / path).exists() for path in commit.vanished)
    )


def gather(folder: Path, staged: Iterable[tuple[Path, str]], kept: Iterable[Path]) -> None:
    """Make a folder of staged files, with the names that they will have, and of links to files that stay."""
    folder.mkdir(parents=True, exist_ok=True)
    for path, name in staged:
        path.rename(folder / name)
    for path in kept:
        os.link(path, folder / path.name)
    durable.sync_to_disk(folder)
