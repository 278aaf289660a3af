"""Carry frames between a process and its parent, in order, over a pair of sockets."""

from __future__ import annotations

import os
import pickle
import select
import socket
import threading
from multiprocessing.connection import Connection
from typing import Any


class Link:
    """Send and receive frames at one end of the connection. A frame is a tuple: a word, and its arguments.

    From the child: ``report`` description, database error, misfit, why to replace it · ``refused`` reason. The first
    report says that the child is ready.
    From the supervisor: orders · ``wake`` · ``lost`` leases · ``cancelled`` leases · ``pause`` bool · ``stop`` reason.
    """

    def __init__(self, fd: int) -> None:
        self._connection = Connection(fd)
        self._sending = threading.Lock()

    @classmethod
    def pair(cls) -> tuple[Link, int]:
        """Return a link and the file descriptor of its other end, which the caller passes to a child and closes."""
        ours, theirs = socket.socketpair()
        return cls(ours.detach()), theirs.detach()

    def send(self, *frame: Any) -> bool:
        """Send a frame; blocks while the other end does not read. Returns whether the other end exists."""
        try:
            with self._sending:
                # Not send(), whose pickler for processes is slow to make. The other end needs to know no difference.
                self._connection.send_bytes(pickle.dumps(frame, pickle.HIGHEST_PROTOCOL))
        except OSError:
            return False
        return True

    def has_room(self) -> bool:
        """Return whether a frame of some kilobytes can be sent without a wait; also if the other end is closed."""
        room = select.poll()
        room.register(self._connection.fileno(), select.POLLOUT)
        return bool(room.poll(0))

    def receive(self) -> tuple[Any, ...] | None:
        """Wait for the next frame and return it; None when the other end is closed and its frames are received."""
        try:
            frame: tuple[Any, ...] = self._connection.recv()
        except (EOFError, OSError):
            return None
        return frame

    def poll(self, timeout: float) -> bool:
        """Wait up to ``timeout`` seconds for a frame or the end of the link. Returns whether one of them is there."""
        try:
            return self._connection.poll(timeout)
        except OSError:
            return True

    def cut(self) -> None:
        """Close the link for new frames. Frames that have arrived can still be received."""
        peer = socket.socket(fileno=os.dup(self._connection.fileno()))
        try:
            peer.shutdown(socket.SHUT_RDWR)
        except OSError:  # the other end has closed it
            pass
        finally:
            peer.close()

    def close(self) -> None:
        """Close this end."""
        self._connection.close()
