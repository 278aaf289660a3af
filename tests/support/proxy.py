"""A TCP proxy in front of the server, for what networks do: cut, delay, swallow, fail at exactly one statement."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Literal
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

# Close with a reset, as a machine does that has forgotten the connection.
ABORT = struct.pack("ii", 1, 0)
# The server has executed a statement: ReadyForQuery, and a byte for the state of the transaction.
READY = b"Z\0\0\0\5"
When = Literal["before", "after"]


@dataclass(slots=True)
class Trap:
    """Waits for a text that a client sends in one piece. ``sprung``: set when it came and the connection is cut."""

    text: bytes
    when: When
    sprung: threading.Event = field(default_factory=threading.Event)


class Proxy:
    """Listens on loopback and passes everything on to the server of ``url``, in a thread for each direction.

    ``delay``: seconds that each piece of the traffic takes longer.
    """

    def __init__(self, url: str) -> None:
        self.lead_to(url)
        self.delay = 0.0
        self._traps: list[Trap] = []
        self._links: set[Link] = set()
        self._lock = threading.Lock()
        self._open = threading.Event()
        self._open.set()
        self._swallows = False
        self._swallowed: set[Link] = set()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()

    def lead_to(self, url: str) -> None:
        """New connections go to this server."""
        self._parts = urlsplit(url)
        self._parameters = dict(parse_qsl(self._parts.query))

    @property
    def url(self) -> str:
        """The server's URL, through the proxy."""
        credentials = self._parts.netloc.rpartition("@")[0]
        at = f"{credentials}@" if credentials else ""
        user = {name: value for name, value in self._parameters.items() if name not in ("host", "port")}
        return f"postgresql://{at}127.0.0.1:{self.port}{quote(self._parts.path)}?{urlencode(user)}"

    def __len__(self) -> int:
        """How many connections go through it now."""
        return len(self._links)

    def cut(self) -> None:
        """Reset all connections; new ones are welcome."""
        with self._lock:
            links = list(self._links)
        for link in links:
            link.cut()

    def close(self) -> None:
        """Reset all connections, and each new one at once."""
        self._open.clear()
        self.cut()

    def open(self) -> None:
        self._open.set()

    def swallow(self) -> None:
        """A black hole: connections are accepted and stay, what they carry is acknowledged, and goes nowhere."""
        self._swallows = True

    def heal(self) -> None:
        """New connections work again; what went through the black hole stays dead."""
        self._swallows = False

    def trap(self, text: str, when: When) -> Trap:
        """Cut the next connection that sends ``text``: before it reaches the server, or after the server did it.

        After: the answer comes back to the proxy and is thrown away, so the client cannot know whether it was done.
        """
        trap = Trap(text.encode(), when)
        self._traps.append(trap)
        return trap

    def __enter__(self) -> Proxy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._socket.close()
        self.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            if not self._open.is_set():
                abort(client)
                continue
            try:
                link = Link(self, client, self._connect())
            except OSError:
                abort(client)
                continue
            with self._lock:
                self._links.add(link)
            link.start()

    def _connect(self) -> socket.socket:
        host = self._parameters.get("host") or self._parts.hostname or "127.0.0.1"
        port = int(self._parameters.get("port") or self._parts.port or 5432)
        if host.startswith("/"):
            server = socket.socket(socket.AF_UNIX)
            try:
                server.connect(f"{host}/.s.PGSQL.{port}")
            except OSError:
                server.close()
                raise
            return server
        return socket.create_connection((host, port))

    def sprung(self, data: bytes) -> Trap | None:
        """The trap that this text springs; each springs once."""
        with self._lock:
            for trap in self._traps:
                if trap.text in data:
                    self._traps.remove(trap)
                    return trap
        return None

    def forget(self, link: Link) -> None:
        with self._lock:
            self._links.discard(link)

    def lost_in(self, link: Link) -> bool:
        """Whether this link is, or was, in the black hole when it carried something."""
        if self._swallows:
            self._swallowed.add(link)
        return link in self._swallowed

    @property
    def swallowed(self) -> int:
        """How many connections lead nowhere since ``swallow()``."""
        return len(self._swallowed)


class Link:
    """One connection through the proxy."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._trap: Trap | None = None

    def start(self) -> None:
        for target in (self._up, self._down):
            threading.Thread(target=target, name="proxy-link", daemon=True).start()

    def cut(self) -> None:
        self._proxy.forget(self)
        abort(self._client)
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)

    def _up(self) -> None:
        """From the client to the server."""
        while data := receive(self._client):
            if self._proxy.lost_in(self):
                continue
            trap = self._proxy.sprung(data)
            if trap and trap.when == "before":
                self.cut()
                trap.sprung.set()
                return
            self._trap = trap or self._trap
            if not self._pass(data, self._server):
                break
        self.cut()

    def _down(self) -> None:
        """From the server to the client."""
        answer = b""
        while data := receive(self._server):
            if self._proxy.lost_in(self):
                continue
            if self._trap:
                answer += data
                if answer[-6:-1] != READY:
                    continue
                self.cut()
                self._trap.sprung.set()
                break
            if not self._pass(data, self._client):
                break
        # The other end of a black hole gets nothing.
        if not self._proxy.lost_in(self):
            self.cut()
        self._server.close()

    def _pass(self, data: bytes, to: socket.socket) -> bool:
        if self._proxy.delay:
            time.sleep(self._proxy.delay)
        try:
            to.sendall(data)
        except OSError:
            return False
        return True


def receive(source: socket.socket) -> bytes:
    try:
        return source.recv(65536)
    except OSError:
        return b""


def abort(client: socket.socket) -> None:
    with contextlib.suppress(OSError):
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABORT)
        # shutdown would send a FIN; it wakes the thread that reads, too.
        client.shutdown(socket.SHUT_RD)
    # Also when the other side was faster.
    client.close()
