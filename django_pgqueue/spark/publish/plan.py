"""Plan a publication: compare the files that the lake has with those that the target has."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from django_pgqueue.spark.lake.commit import LakeFile
from django_pgqueue.spark.publish.target import uploading
from django_pgqueue.spark.schema import TABLES

# An object store copies no larger object in one request. Such a file is uploaded to its place.
LONGEST_COPY_BYTES = 5 * 1024**3


@dataclass(frozen=True, slots=True)
class Publication:
    """The work of one run. A file is in exactly one of ``there``, ``uploads`` and ``replacements``.

    ``there``: files that the target has. ``uploads``: files to upload to their places. ``replacements``: files of
    days whose files are replaced; they are uploaded beside, those of ``beside`` are there already. ``gone``: the paths
    of files to delete.
    """

    there: tuple[LakeFile, ...]
    uploads: tuple[LakeFile, ...]
    replacements: tuple[LakeFile, ...]
    beside: frozenset[str]
    gone: tuple[str, ...]

    @property
    def to_upload(self) -> list[tuple[LakeFile, str]]:
        """Return the files to upload, each with the path that it is uploaded to."""
        direct = [(file, file.path) for file in self.uploads]
        return direct + [(file, uploading(file.path)) for file in self.replacements if file.path not in self.beside]

    @property
    def replaced_folders(self) -> list[str]:
        """Return the folders of the days whose old files go, and get new ones, in this run."""
        gone = {folder_of(path) for path in self.gone}
        return sorted(gone & {folder_of(file.path) for file in (*self.uploads, *self.replacements)})


def compare(wanted: Mapping[str, LakeFile], present: Mapping[str, int], good: Collection[str]) -> Publication:
    """Return what there is to do.

    ``wanted``: the files that the target is to have, by path. ``present``: the sizes of the files of the target by
    path. ``good``: the paths there whose content is known to be right.
    """
    gone = [path for path in present if is_data(path) and path not in wanted]
    replaced = {folder_of(path) for path in gone}
    there, uploads, replacements = [], [], []
    for path, file in sorted(wanted.items()):
        if path in good:
            there.append(file)
        elif folder_of(path) in replaced and path not in present and file.bytes <= LONGEST_COPY_BYTES:
            replacements.append(file)
        else:
            uploads.append(file)
    beside = frozenset(file.path for file in replacements if uploading(file.path) in good)
    return Publication(tuple(there), tuple(uploads), tuple(replacements), beside, tuple(sorted(gone)))


def candidates(
    wanted: Mapping[str, LakeFile], present: Mapping[str, int], recorded: Mapping[str, LakeFile], check: str
) -> tuple[set[str], dict[str, LakeFile]]:
    """Return the paths that are known to be right, and the files whose content has to be read to know it, by path.

    ``recorded``: the files of the newest commit of the target, whose content was checked when they were uploaded.
    ``check``: ``size`` reads none, ``new`` those that no commit of the target has, ``all`` reads all.
    """
    good: set[str] = set()
    unknown: dict[str, LakeFile] = {}
    for file in wanted.values():
        for path in (file.path, uploading(file.path)):
            if present.get(path) != file.bytes:
                continue
            known = path in recorded and recorded[path].sha256 == file.sha256
            if check == "size" or (known and check == "new"):
                good.add(path)
            else:
                unknown[path] = file
    return good, unknown


def is_data(path: str) -> bool:
    """Return whether a path of the target is that of a Parquet file in the folder of a day of a table."""
    table, _, rest = path.partition("/")
    return table in TABLES and rest.endswith(".parquet") and "day=" in rest


def folder_of(path: str) -> str:
    """Return the folder of a file."""
    return path.rpartition("/")[0]


def total_bytes(files: Iterable[LakeFile]) -> int:
    """Return the size of files together."""
    return sum(file.bytes for file in files)
