"""The history of a lake: the files that its commits list, and old commits that are merged into one."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from django_pgqueue.spark.errors import PipelineError
from django_pgqueue.spark.lake import durable
from django_pgqueue.spark.lake.commit import LakeFile
from django_pgqueue.spark.lake.folder import LakeFolder
from django_pgqueue.spark.schema import TABLES


def committed_files(lake: LakeFolder, up_to: int | None = None) -> dict[str, LakeFile]:
    """Return the files that all commits together list, by path; ``up_to``: those of the commits up to this one.

    Raises PipelineError when a commit is missing.
    """
    last = lake.head.number if up_to is None else up_to
    while True:
        numbers = [number for number in lake.commit_numbers() if number <= last]
        try:
            return _listed(lake, numbers, last)
        except PipelineError:
            # A compaction may have merged commits at this moment.
            if {*numbers} <= {*lake.commit_numbers()}:
                raise


def check_commits(lake: LakeFolder) -> None:
    """Raise PipelineError when the folders have files of later commits than the newest: the commits are lost.

    To go on from there would write the rows of these files once more.
    """
    files = [path for table in TABLES for path in (lake.path / table).rglob("*.parquet")]
    # Read after the files: another run may commit meanwhile.
    head = lake.head.number
    later = sorted(path for path in files if (number := path.name.partition("-")[0]).isdecimal() and int(number) > head)
    if later:
        raise PipelineError(
            f"The lake in {lake.path} has lost commits: {len(later):,} files, such as {later[0]}, are of later commits "
            f"than the newest ({head}). Restore the folder {lake.commits} from a backup. Without one, export to a new "
            "lake, and keep this folder: it may have rows that the database does not have any more."
        )


def lost_files(lake: LakeFolder, folders: Collection[str]) -> list[LakeFile]:
    """Return the files that commits list in these folders of partitions, and that are not there."""
    files = committed_files(lake).values()
    return [
        file for file in files if f"{file.table}/{file.partition}" in folders and not (lake.path / file.path).exists()
    ]


def _listed(lake: LakeFolder, numbers: Iterable[int], last: int) -> dict[str, LakeFile]:
    files: dict[str, LakeFile] = {}
    missing: list[int] = []
    next_number = 1
    for number in numbers:
        commit = lake.commit(number)
        if commit.merged:
            # It lists all files of the commits before it. A killed run may have left some of these.
            files, missing, next_number = {}, [], number
        missing += range(next_number, number)
        next_number = number + 1
        for path in commit.removed:
            files.pop(path, None)
        files |= {file.path: file for file in commit.files}
    missing += range(next_number, last + 1)
    if missing:
        raise PipelineError(f"{lake.commit_path(missing[0])} is missing: restore it from a backup.")
    return files


def merge_commits(lake: LakeFolder, up_to: int) -> int:
    """Merge the commits up to this one, which is not the newest, into it. Returns how many files of commits went.

    Only the writer of the lake may call this. If it is killed, old commits are left, which the next call removes.
    """
    old = [number for number in lake.commit_numbers() if number < up_to]
    if not old:
        return 0
    files = tuple(replace(file, staged="") for file in committed_files(lake, up_to).values())
    merged = replace(lake.commit(up_to), files=files, removed=(), exchanged=(), merged=True)
    durable.replace(lake.commit_path(up_to), merged.as_json())
    for number in old:
        lake.commit_path(number).unlink()
    return len(old)
