"""A codec for tests, which needs no library."""

from __future__ import annotations

from django_pgqueue.codecs import Place
from django_pgqueue.exceptions import PayloadUndecodable

SECRET = "canary-5d1e"


class Toy:
    """Hides a text as hex, with the key of its channel in front: another channel cannot read it."""

    name = "toy"
    version = 3

    def __init__(self) -> None:
        self.is_down = False

    def key(self, place: Place) -> str:
        if self.is_down:
            raise ConnectionError(f"no answer about {SECRET}")
        return str(place.context.get("key", place.channel))

    def encode(self, data: bytes, place: Place) -> str:
        return f"{self.key(place)}:{data.hex()}"

    def decode(self, text: str, version: int, place: Place) -> bytes:
        key, _, data = text.partition(":")
        if key != self.key(place) or version != self.version:
            raise PayloadUndecodable(f"the key of {place.channel} does not fit")
        return bytes.fromhex(data)


class Bare:
    """No codec at all."""
