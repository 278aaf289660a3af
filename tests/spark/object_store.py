"""A server of the S3 protocol on the loopback interface, which tests may watch, interrupt and let refuse."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from pyarrow import fs

KEY, SECRET = "canary-key-4711", "canary-secret-0815"
BUCKET = "archive-of-shop"
ACCOUNT = "123456789012"
WRITES = ("PUT", "POST", "DELETE")
Answer = Iterable[bytes]
Start = Callable[..., Any]


class ObjectStore:
    """``before(environ)`` is called before each request that writes, one at a time; ``after(environ)`` when it is
    done. ``answer``: (status, content type, body) in place of the real answers; ``refuse(environ)`` returns one in
    place of the answer to this request, or None.
    """

    def __init__(self) -> None:
        from moto.server import DomainDispatcherApplication, create_backend_app
        from werkzeug.serving import make_server

        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self._app = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", 0, self._respond, threaded=True)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._one_at_a_time = threading.Lock()
        self.reset()

    def reset(self) -> None:
        """Forget what a test has set."""
        self.before: Callable[[dict[str, Any]], None] | None = None
        self.after: Callable[[dict[str, Any]], None] | None = None
        self.answer: tuple[str, str, bytes] | None = None
        self.refuse: Callable[[dict[str, Any]], tuple[str, str, bytes] | None] | None = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    @contextmanager
    def serving(self) -> Iterator[ObjectStore]:
        """Serve in a thread."""
        self._thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()

    def _respond(self, environ: dict[str, Any], start: Start) -> Answer:
        if self.answer is not None:
            return self._refuse(self.answer, start)
        if self.refuse is not None and (refusal := self.refuse(environ)) is not None:
            return self._refuse(refusal, start)
        if environ["REQUEST_METHOD"] not in WRITES or (self.before is None and self.after is None):
            return self._app(environ, start)
        with self._one_at_a_time:
            if self.before is not None:
                self.before(environ)
            if self.answer is not None:
                return self._refuse(self.answer, start)
            answer = self._app(environ, start)
            if self.after is not None:
                self.after(environ)
            return answer

    def _refuse(self, answer: tuple[str, str, bytes], start: Start) -> Answer:
        status, kind, body = answer
        start(status, [("Content-Type", kind), ("Content-Length", str(len(body)))])
        return [body]

    def damage(self, path: str) -> None:
        """Change the content of an object, ``/bucket/key``, where the server keeps it."""
        from moto.s3.models import s3_backends

        _, bucket, key = path.split("/", 2)
        kept = s3_backends[ACCOUNT]["aws"].get_object(bucket, key)
        kept.value = bytes(len(kept.value))

    def files(self) -> fs.S3FileSystem:
        """Return pyarrow's file system for it."""
        return fs.S3FileSystem(access_key=KEY, secret_key=SECRET, endpoint_override=self.endpoint, region="us-east-1")

    def content(self, prefix: str) -> dict[str, bytes]:
        """Return all objects by their path below a prefix of the bucket."""
        files, root = self.files(), f"{BUCKET}/{prefix}"
        found = files.get_file_info(fs.FileSelector(root, recursive=True, allow_not_found=True))
        objects = {}
        for info in found:
            if info.type == fs.FileType.File:
                with files.open_input_stream(info.path) as stream:
                    objects[info.path[len(root) + 1 :]] = stream.read()
        return objects
