"""Publish the lake: mirror it to an object store such as S3, where other programs read it.

Only what is new is uploaded. A killed run is continued by the next one. Credentials come from the environment
(AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_PROFILE …) or the usual files of AWS, never from options. It needs
neither Java nor the database.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import NativeFile, fs

from django_pgqueue.spark.arguments import add_lake
from django_pgqueue.spark.errors import PipelineError
from django_pgqueue.spark.lake import Lake, LakeFile
from django_pgqueue.spark.lake.durable import sha256_of
from django_pgqueue.spark.lake.writing import lake_lock
from django_pgqueue.spark.redaction import redact_secrets, secrets_of
from django_pgqueue.spark.schema import TABLES

LOCK = "publishing.lock"
REQUESTS_AT_A_TIME = 8
# The description of the lake says whose copy the target is.
MARK = "_pgqueue/lake.json"
LOG = "_delta_log"
CHUNK_BYTES = 1024 * 1024
CONNECT_SECONDS = 10.0
# A store that is busy may take longer for an answer than the 3 seconds of AWS's library.
ANSWER_SECONDS = 60.0
# How often a request is tried while the store is overloaded (503) or fails (500); the pauses in between double.
TRIES = 6
REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
SCHEMES = ("s3", "gs", "gcs", "abfs", "abfss")

Item = TypeVar("Item")
Result = TypeVar("Result")


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options of the command to its parser."""
    add_lake(parser)
    parser.add_argument(
        "--to",
        required=True,
        metavar="URL",
        help="where the copy is: s3://bucket/prefix, gs://bucket/prefix, abfs://…; a prefix is for one lake",
    )
    parser.add_argument(
        "--endpoint", metavar="URL", help="the address of an S3 store that is not AWS, as http://minio:9000"
    )


def run(args: Namespace) -> int:
    """Mirror the lake. Returns 0; raises PipelineError, LakeBusy."""
    lake = Lake.open(args.lake)
    print(publish(lake, open_target(args.to, args.endpoint)))
    return 0


def publish(lake: Lake, target: Target) -> str:
    """Make the target a copy of the newest versions. Returns a text for the user.

    New files are uploaded first, then the version of each table that lists them, and then what the lake has not is
    deleted: a reader of a table sees one version or the next one. A run that is killed leaves files that the next run
    counts or deletes. Raises PipelineError if the target holds something else or refuses, LakeBusy if another run
    publishes.
    """
    with lake_lock(lake, LOCK, "is being published"):
        present = target.list()
        is_new = check_mark(lake, target, present)
        versions = lake.versions
        for table in TABLES:
            check_line(lake, target, table, present)
        files = {file.path: file for table, at in versions.items() for file in lake.files(table, version=at)}
        uploads = [files[path] for path in sorted(files) if present.get(path) != files[path].bytes]
        if is_new:
            target.write(MARK, (lake.control / "lake.json").read_text(encoding="utf-8"))
            check_mark(lake, target, {MARK: 1})
        in_parallel(lambda file: upload_data(lake, target, file), uploads)
        # Another lake may have claimed the same empty prefix at the same moment.
        check_mark(lake, target, {MARK: 1})
        for table, version in versions.items():
            upload_log(lake, target, table, version, present)
        # Files of earlier versions stay as long as the lake has them.
        gone = [
            path
            for path in present
            if path.endswith(".parquet") and LOG not in path and path.partition("/")[0] in TABLES
            if path not in files and not (lake.path / path).exists()
        ]
        in_parallel(target.delete, gone)
    return (
        f"{target.url} has the lake: uploaded {len(uploads):,} files, {sum(file.bytes for file in uploads):,} bytes; "
        f"{len(files) - len(uploads):,} were there; deleted {len(gone):,}."
    )


def upload_data(lake: Lake, target: Target, file: LakeFile) -> None:
    """Upload a file, and compare what arrived. Raises PipelineError."""
    local = lake.path / file.path
    try:
        digest = sha256_of(local)
        if digest != (file.sha256 or digest):
            raise PipelineError(f"{file.path} is not as it was committed: see with verify what else is.")
        target.upload(local, file.path)
    except FileNotFoundError:
        raise PipelineError(
            f"{local} is missing: see with verify what else is, or run it again if the lake was erased or compacted "
            "at this moment."
        ) from None
    if target.digest(file.path) != digest:
        target.delete(file.path)
        raise PipelineError(f"{target.url}/{file.path} is not what was uploaded (SHA-256 differs): run it again.")


def upload_log(lake: Lake, target: Target, table: str, version: int, present: Mapping[str, int]) -> None:
    """Publish a version of a table, as a checkpoint: versions between the published ones are not in the copy.

    The log of the version before stays for readers that have begun with it.
    """
    folder, name = f"{table}/{LOG}", f"{version:020}"
    if f"{folder}/{name}.json" in present:
        return
    checkpoint = lake.path / folder / f"{name}.checkpoint.parquet"
    if not checkpoint.exists():
        lake.delta(table, version).create_checkpoint()
    target.upload(checkpoint, f"{folder}/{checkpoint.name}")
    target.upload(lake.path / folder / f"{name}.json", f"{folder}/{name}.json")
    size = pq.read_metadata(checkpoint).num_rows
    target.write(f"{folder}/_last_checkpoint", json.dumps({"version": version, "size": size}))
    there = sorted(path for path in present if path.startswith(f"{folder}/0"))
    last = there[-1].partition(".")[0] if there else ""
    in_parallel(target.delete, [path for path in there if path.partition(".")[0] < last])


def check_mark(lake: Lake, target: Target, present: Mapping[str, int]) -> bool:
    """Return whether the target is empty. Raises PipelineError if it holds another lake or anything else."""
    if MARK not in present:
        if present:
            raise PipelineError(f"{target.url} holds other files, and no published lake: give a prefix that is empty.")
        return True
    try:
        owner: Any = json.loads(target.read(MARK) or "{}")["name"]
    except (ValueError, KeyError, TypeError):
        raise PipelineError(
            f"{target.url}/{MARK} is not the mark of a published lake: look at --to and --endpoint."
        ) from None
    if owner != lake.description.name:
        raise PipelineError(
            f"{target.url} belongs to the lake {owner}, and this one is {lake.description.name}: "
            "give each lake a prefix of its own."
        )
    return False


def check_line(lake: Lake, target: Target, table: str, present: Mapping[str, int]) -> None:
    """Raise PipelineError if the target has a version of a table that is not one of this lake: the lake was restored
    from a backup.
    """
    folder = f"{table}/{LOG}/"
    newest = max((path for path in present if path.startswith(folder) and path.endswith(".json")), default=None)
    if newest is None:
        return
    number, local = int(newest.removeprefix(folder)[:20]), lake.path / newest
    same = not local.exists() or local.read_text(encoding="utf-8") == target.read(newest)
    if number > lake.delta(table).version() or not same:
        raise PipelineError(
            f"{target.url} has version {number:,} of {table}, which the lake in {lake.path} has not: it was restored "
            "from a backup, or is an old copy. Publish to an empty prefix."
        )


def in_parallel(task: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Run a task for each item, some at a time, and return the results. After an error no further task begins.

    A signal is raised here and not in a task, so it cannot end an upload in the middle.
    """
    with ThreadPoolExecutor(REQUESTS_AT_A_TIME, thread_name_prefix="publish") as pool:
        try:
            return list(pool.map(task, items))
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


@dataclass(frozen=True, slots=True)
class Target:
    """Objects by their path below a prefix, whole or absent. ``url`` names it. Each method raises PipelineError."""

    files: fs.FileSystem
    root: str
    url: str

    def list(self) -> dict[str, int]:
        """Return the size in bytes of each object, by path."""
        with store_errors(self.url):
            found = self.files.get_file_info(fs.FileSelector(self.root, allow_not_found=True, recursive=True))
        skip = len(self.root) + 1
        return {info.path[skip:]: info.size for info in found if info.type == fs.FileType.File}

    def read(self, path: str) -> str | None:
        """Return a small text, or None if there is none."""
        with store_errors(self.url), suppress(FileNotFoundError), self._opened(path) as stream:
            return str(stream.read(), encoding="utf-8", errors="replace")
        return None

    def digest(self, path: str) -> str:
        """Read an object, and return the SHA-256 of its content, in hexadecimal."""
        with store_errors(self.url), self._opened(path) as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()

    def write(self, path: str, text: str) -> None:
        """Write a small text, in place of an existing one if there is one."""
        with self._appearing(path) as stream:
            stream.write(text.encode())

    def upload(self, source: Path, path: str) -> None:
        """Copy a file of this machine."""
        with self._appearing(path) as stream, open(source, "rb") as file:
            shutil.copyfileobj(file, stream, CHUNK_BYTES)

    def delete(self, path: str) -> None:
        """Delete an object, if it is there."""
        with store_errors(self.url), suppress(FileNotFoundError):
            self.files.delete_file(f"{self.root}/{path}")

    def _opened(self, path: str) -> NativeFile:
        return self.files.open_input_stream(f"{self.root}/{path}", compression=None)

    @contextmanager
    def _appearing(self, path: str) -> Iterator[NativeFile]:
        with store_errors(self.url):
            stream = self.files.open_output_stream(f"{self.root}/{path}", compression=None)
            try:
                yield stream
            except BaseException:
                # The library completes the object when the stream is closed.
                with suppress(OSError, pa.ArrowException):
                    stream.close()
                with suppress(OSError, pa.ArrowException):
                    self.files.delete_file(f"{self.root}/{path}")
                raise
            stream.close()


@contextmanager
def store_errors(url: str) -> Iterator[None]:
    """Convert the errors of pyarrow's file systems in the block to PipelineError, in one line without keys."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        said = redact_secrets(" ".join(str(error).split()), secrets_of())
        raise PipelineError(
            f"{url} cannot be read or written: look at --to, --endpoint, the credentials, their rights and AWS_REGION, "
            f"and run it again. The store said: {said}"
        ) from None


def open_target(url: str, endpoint: str | None) -> Target:
    """Open the object store of a URL. ``endpoint``: the address of an S3 store. Raises PipelineError."""
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES or not parts.netloc:
        raise PipelineError("--to is no URL of an object store: s3://bucket/prefix, gs://bucket/prefix or abfs://….")
    if (parts.scheme in ("s3", "gs", "gcs") and "@" in parts.netloc) or parts.query or parts.fragment:
        raise PipelineError(
            "--to has more than bucket and prefix: give credentials in the environment or in AWS's files, the region "
            "in AWS_REGION, and the address in --endpoint."
        )
    shown = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
    if parts.scheme == "s3":
        endpoint = endpoint or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        return Target(_s3(shown, parts.netloc, endpoint), f"{parts.netloc}{parts.path.rstrip('/')}", shown)
    if endpoint:
        raise PipelineError(f"--endpoint is for s3://, not for {parts.scheme}://.")
    with store_errors(shown):
        files, root = fs.FileSystem.from_uri(shown)
    return Target(files, root.rstrip("/"), shown)


def _s3(shown: str, bucket: str, endpoint: str | None) -> fs.S3FileSystem:
    options: dict[str, Any] = {"connect_timeout": CONNECT_SECONDS, "request_timeout": ANSWER_SECONDS}
    # A file of up to 5 MB is one request then.
    options["allow_delayed_open"] = True
    options["retry_strategy"] = fs.AwsStandardS3RetryStrategy(max_attempts=TRIES)
    if endpoint:
        at = urlsplit(endpoint)
        if at.scheme not in ("http", "https") or not at.hostname or "@" in at.netloc or at.query:
            raise PipelineError("--endpoint is no address such as https://minio.example.com or http://10.0.0.1:9000.")
        options |= {"scheme": at.scheme, "endpoint_override": at.netloc + at.path.rstrip("/")}
    with store_errors(shown):
        if not endpoint and not any(os.environ.get(name) for name in REGIONS):
            options["region"] = fs.resolve_s3_region(bucket)
        return fs.S3FileSystem(**options)
