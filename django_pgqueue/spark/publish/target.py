"""The target: a folder of an object store, or of any other file system of pyarrow.

In an object store a file appears whole when its upload is complete. In other file systems it is written beside, and
moved to its place.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import fs

from django_pgqueue.spark.errors import PipelineError
from django_pgqueue.spark.lake.tables import CONTROL
from django_pgqueue.spark.publish.store_errors import StoreAddress, store_errors

UPLOADING = f"{CONTROL}/uploading"
OBJECT_STORES = ("s3", "gcs", "abfs")
CHUNK_BYTES = 1024 * 1024
CONNECT_SECONDS = 10.0
# A store that is busy may take longer for an answer than the 3 seconds of AWS's library.
ANSWER_SECONDS = 60.0
# How often a request is tried while the store is overloaded (503) or fails (500); the pauses in between double.
TRIES = 6
REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")


@dataclass(frozen=True, slots=True)
class Target:
    """Files by their path below the root. ``url`` names the root in messages. Every method raises PipelineError."""

    files: fs.FileSystem
    root: str
    address: StoreAddress

    @property
    def url(self) -> str:
        return self.address.url

    @property
    def is_object_store(self) -> bool:
        return self.files.type_name in OBJECT_STORES

    def list(self) -> dict[str, int]:
        """Return the size in bytes of each file, by path."""
        with self._errors():
            found = self.files.get_file_info(fs.FileSelector(self.root, allow_not_found=True, recursive=True))
            if not found and self.is_object_store:
                self._check_bucket()
        skip = len(self.root) + 1
        return {info.path[skip:]: info.size for info in found if info.type == fs.FileType.File}

    def _check_bucket(self) -> None:
        # Rights that are bound to a prefix do not include the bucket: then the first upload shows whether it is there.
        with suppress(OSError):
            if self.files.get_file_info(self.address.bucket).type == fs.FileType.NotFound:
                raise PipelineError(self.address.said(OSError("NO_SUCH_BUCKET")))

    def read(self, path: str) -> str | None:
        """Return a small text file, or None if there is none."""
        with self._errors():
            try:
                with self.files.open_input_stream(self._full(path), compression=None) as stream:
                    return str(stream.read(), encoding="utf-8", errors="replace")
            except FileNotFoundError:
                return None

    def write(self, path: str, text: str) -> None:
        """Write a small text file, in place of an existing one if there is one; it is whole or absent."""
        with self._errors(), self._appearing(path) as stream:
            stream.write(text.encode())

    def upload(self, source: Path, path: str) -> None:
        """Copy a file of this machine; it is whole or absent."""
        with self._errors(), self._appearing(path) as stream, open(source, "rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                stream.write(chunk)

    def digest(self, path: str) -> str:
        """Read a file, and return the SHA-256 of its content, in hexadecimal."""
        sha256 = hashlib.sha256()
        with self._errors(), self.files.open_input_stream(self._full(path), compression=None) as stream:
            while chunk := stream.read(CHUNK_BYTES):
                sha256.update(chunk)
        return sha256.hexdigest()

    def delete(self, path: str) -> None:
        """Delete a file, if it is there."""
        with self._errors(), suppress(FileNotFoundError):
            self.files.delete_file(self._full(path))

    @contextmanager
    def _appearing(self, path: str) -> Iterator[pa.NativeFile]:
        written = path if self.is_object_store else f"{uploading(path)}.part"
        if not self.is_object_store:
            self._make_folder(written)
        stream = self.files.open_output_stream(self._full(written), compression=None)
        try:
            yield stream
        except BaseException:
            # The library completes the file when the stream is closed.
            with suppress(OSError, pa.ArrowException):
                stream.close()
            with suppress(OSError, pa.ArrowException):
                self.files.delete_file(self._full(written))
            raise
        stream.close()
        if not self.is_object_store:
            self._move(written, path)

    def _move(self, source: str, path: str) -> None:
        self._make_folder(path)
        self.files.move(self._full(source), self._full(path))

    def _make_folder(self, path: str) -> None:
        self.files.create_dir(self._full(path).rpartition("/")[0], recursive=True)

    def _full(self, path: str) -> str:
        return f"{self.root}/{path}"

    def _errors(self) -> Any:
        return store_errors(self.address)


def uploading(path: str) -> str:
    """Return where a file waits until it may be in its place: in no folder of a table."""
    return f"{UPLOADING}/{path}"


def open_target(url: str, endpoint: str | None, lake: Path) -> Target:
    """Open the file system of a URL. ``endpoint``: the address of an S3 store; ``lake``: the folder of the lake.

    Raises PipelineError if the URL or the endpoint is not understood, or if the target and the lake overlap.
    """
    parts = urlsplit(url)
    if not parts.scheme or not parts.netloc + parts.path.strip("/"):
        raise PipelineError("--to is no URL of a folder: s3://bucket/prefix, gs://bucket/prefix or file:///folder.")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise PipelineError(
            "--to has more than bucket and prefix: give credentials in the environment or in AWS's files, the region "
            "in AWS_REGION, and the address in --endpoint."
        )
    shown = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
    if parts.scheme == "s3":
        endpoint = endpoint or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        at = _endpoint(endpoint) if endpoint else None
        address = StoreAddress(shown, parts.netloc, f"{at[0]}://{at[1]}" if at else "")
        return Target(_s3(address, at), f"{parts.netloc}{parts.path.rstrip('/')}", address)
    if endpoint:
        raise PipelineError(f"--endpoint is for s3://, not for {parts.scheme}://.")
    address = StoreAddress(shown, parts.netloc)
    with store_errors(address):
        try:
            files, root = fs.FileSystem.from_uri(shown)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise PipelineError(f"pyarrow cannot open {shown}: give s3://, gs://, abfs:// or file:///.") from None
    if files.type_name == "local":
        there = Path(root).resolve()
        if there.is_relative_to(lake) or lake.is_relative_to(there):
            raise PipelineError(f"{shown} and the lake in {lake} overlap: give another folder.")
    return Target(files, root.rstrip("/"), address)


def _endpoint(endpoint: str) -> tuple[str, str]:
    """Return scheme and address. Raises PipelineError."""
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc or parts.query:
        raise PipelineError("--endpoint is no address such as https://minio.example.com or http://10.0.0.1:9000.")
    return parts.scheme, parts.netloc + parts.path.rstrip("/")


def _s3(address: StoreAddress, at: tuple[str, str] | None) -> fs.S3FileSystem:
    options: dict[str, Any] = {"connect_timeout": CONNECT_SECONDS, "request_timeout": ANSWER_SECONDS}
    # A file of up to 5 MB is one request then.
    options["allow_delayed_open"] = True
    options["retry_strategy"] = fs.AwsStandardS3RetryStrategy(max_attempts=TRIES)
    with store_errors(address):
        if at is not None:
            options |= {"scheme": at[0], "endpoint_override": at[1]}
        elif not any(os.environ.get(name) for name in REGIONS):
            options["region"] = fs.resolve_s3_region(address.bucket)
        return fs.S3FileSystem(**options)
