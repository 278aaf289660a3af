"""The link: frames between the supervisor and one of its children, in order, over a pair of sockets."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from django_pgqueue.delivery import Delivery


class Token(int):
    """Does for a UUID, with which each message would cost the supervisor twice as much."""

    __slots__ = ()

    @property
    def int(self) -> Token:
        return self

    @property
    def hex(self) -> str:
        return f"{self:032x}"


class HeldLease(NamedTuple):
    """A lease as the supervisor knows it; for the lease keeper it does for a delivery.

    ``worker``: name of the child that has the message.
    """

    id: int
    token: Token
    worker: str


class LeaseList(NamedTuple):
    """As the link carries them: message ids, and the tokens as numbers."""

    ids: list[int]
    tokens: list[int]

    @classmethod
    def of(cls, deliveries: Sequence[Delivery | HeldLease]) -> LeaseList:
        return cls(
            [delivery.id for delivery in deliveries],
            [0 if delivery.token is None else delivery.token.int for delivery in deliveries],
        )

    def held(self, worker: str) -> list[HeldLease]:
        return [HeldLease(message, Token(token), worker) for message, token in zip(self.ids, self.tokens, strict=True)]


class Link:
    """One end. A frame is a tuple: what it is about, and what belongs to it.

    From the child: ``ready`` · ``hold`` leases, since · ``release`` leases · ``settling`` leases, now
    · ``report`` description, trouble · ``recycle`` reason · ``refused`` reason.
    From the supervisor: orders · ``wake`` · ``lost`` leases · ``cancelled`` leases · ``pause`` bool · ``stop`` reason.
    """

    def __init__(self, fd: int) -> None:
        self._connection = Connection(fd)
        self._sending = threading.Lock()

    @classmethod
    def pair(cls) -> tuple[Link, int]:
        """Return a link, and the file descriptor of its other end: give it to a child, and close it here."""
        ours, theirs = socket.socketpair()
        return cls(ours.detach()), theirs.detach()

    def send(self, *frame: Any) -> bool:
        """Send a frame. Blocks while the other end is busy. Returns False when it is gone."""
        try:
            with self._sending:
                self._connection.send(frame)
        except OSError:
            return False
        return True

    def receive(self) -> tuple[Any, ...] | None:
        """Return the next frame; None when the other end is gone and all its frames are received."""
        try:
            frame: tuple[Any, ...] = self._connection.recv()
        except (EOFError, OSError):
            return None
        return frame

    def poll(self, timeout: float) -> bool:
        """Return whether a frame, or the end of the link, can be received within ``timeout`` seconds."""
        try:
            return self._connection.poll(timeout)
        except OSError:
            return True

    def cut(self) -> None:
        """Close the link for new frames. Frames that have arrived may still be received."""
        peer = socket.socket(fileno=os.dup(self._connection.fileno()))
        try:
            peer.shutdown(socket.SHUT_RDWR)
        except OSError:  # the other end has closed it
            pass
        finally:
            peer.close()

    def close(self) -> None:
        self._connection.close()
