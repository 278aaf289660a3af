"""Encode what handlers get and return before it is stored, and decode it when it is read. FernetCodec encrypts it.

The stored form is the JSON object ``{"$codec": name, "v": version, "data": text}``; a raw body has it behind a mark.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from django.utils.module_loading import import_string

from django_pgqueue.conf import settings
from django_pgqueue.exceptions import CodecUnavailable, InvalidMessage, PayloadUndecodable

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet

MARK = "$codec"
KEYS = {MARK, "v", "data"}
BODY_MARK = b"\x00pgqueue:codec\x00"
FAILURES = (PayloadUndecodable, CodecUnavailable)


@dataclass(frozen=True, slots=True)
class Place:
    """Name the channel of a payload. ``context``: the channel's context; it is read when a codec asks for it."""

    queue: str
    channel: str
    read_context: Callable[[], Mapping[str, Any]]

    @property
    def context(self) -> Mapping[str, Any]:
        return self.read_context()


NOWHERE = Place("", "", dict)
"""The place of what belongs to no channel: the payload of an event."""


class Codec(Protocol):
    """Describe a codec: a class without arguments, which PAYLOAD_CODEC names.

    ``name``, ``version``: stored beside each text. ``encode`` returns a text; ``decode`` gets it back, and raises
    PayloadUndecodable when no later attempt can succeed. After any other exception of ``decode`` the message waits.
    """

    name: str
    version: int

    def encode(self, data: bytes, place: Place) -> str:
        """Return the text that stands for ``data`` in the database."""

    def decode(self, text: str, version: int, place: Place) -> bytes:
        """Return the data of a text that ``encode`` of this ``version`` made. Raises PayloadUndecodable."""


class FernetCodec:
    """Encrypt with Fernet (AES-128-CBC and HMAC-SHA256). The setting PAYLOAD_KEYS has the keys, or a function that
    returns those of a channel. The first key encrypts, all of them decrypt."""

    name = "fernet"
    version = 1

    def encode(self, data: bytes, place: Place) -> str:
        """Encrypt with the first key of the channel. Raises CodecUnavailable if it has no key."""
        token: bytes = fernet(keys_of(place)).encrypt(data)
        return token.decode()

    def decode(self, text: str, version: int, place: Place) -> bytes:
        """Decrypt with any key of the channel. Raises PayloadUndecodable if none fits, CodecUnavailable if it has no
        key.
        """
        from cryptography.fernet import InvalidToken

        try:
            data: bytes = fernet(keys_of(place)).decrypt(text.encode())
        except InvalidToken:
            raise PayloadUndecodable(
                f"no key of PAYLOAD_KEYS for {place.queue}/{place.channel} decrypts it",
                hint="Bring the old key back, behind the new one, and redrive.",
            ) from None
        return data


def keys_of(place: Place) -> tuple[str, ...]:
    """Return the keys of a channel from the setting PAYLOAD_KEYS. Raises CodecUnavailable if it has none."""
    given = settings.PAYLOAD_KEYS
    if isinstance(given, str) or callable(given):
        function = import_string(given) if isinstance(given, str) else given
        given = function(place.queue, place.channel, place.context)
    keys = (given,) if isinstance(given, str | bytes) else tuple(given or ())
    if not keys:
        raise CodecUnavailable(
            f"PAYLOAD_KEYS has no key for {place.queue}/{place.channel}",
            hint="Make one with cryptography.fernet.Fernet.generate_key().",
        )
    return tuple(key.decode() if isinstance(key, bytes) else key for key in keys)


@lru_cache(maxsize=10_000)
def fernet(keys: tuple[str, ...]) -> MultiFernet:
    """Return the cipher of these keys: the first encrypts, all decrypt. It is kept for the next call."""
    from cryptography.fernet import Fernet, MultiFernet

    return MultiFernet([Fernet(key) for key in keys])


def current() -> Codec | None:
    """Return the codec that PAYLOAD_CODEC names; None if payloads are stored as they are."""
    given = settings.PAYLOAD_CODEC
    if given is None:
        return None
    codec: Codec = made(given) if isinstance(given, str) else given
    return codec


@lru_cache(maxsize=8)
def made(path: str) -> Codec:
    """Import and make the codec at a dotted path. It is kept for the next call."""
    codec: Codec = import_string(path)()
    return codec


def is_sealed(value: Any) -> bool:
    """Return whether JSON is the stored form of a codec."""
    return type(value) is dict and MARK in value and value.keys() == KEYS


def is_sealed_body(body: bytes | None) -> bool:
    """Return whether a raw body is the stored form of a codec."""
    return body is not None and body.startswith(BODY_MARK)


def refuse_stored_form(text: str | None, named: str) -> None:
    """Refuse JSON text in the stored form of a codec although PAYLOAD_CODEC names none: it could not be read again.

    ``named``: what the exception calls the text. Raises InvalidMessage.
    """
    if text is not None and f'"{MARK}"' in text and is_sealed(json.loads(text)) and current() is None:
        raise InvalidMessage(
            f'{named} has exactly the keys "$codec", "v" and "data", which mark what a codec has encoded',
            hint="Put it into another object, or set PAYLOAD_CODEC.",
        )


def refuse_stored_body(body: bytes | None) -> None:
    """Refuse a raw body that begins with the mark of a codec although PAYLOAD_CODEC names none. Raises
    InvalidMessage."""
    if is_sealed_body(body) and current() is None:
        raise InvalidMessage(
            "body begins with the mark of what a codec has encoded", hint="Put a byte before it, or set PAYLOAD_CODEC."
        )


def sealed(text: str | None, place: Place) -> str | None:
    """Return the stored form of JSON text, as text. None stays None, and so does every text without a codec.

    Raises CodecUnavailable.
    """
    codec = current()
    return text if codec is None or text is None else json.dumps(envelope(codec, text.encode(), place))


def sealed_value(value: Any, place: Place) -> Any:
    """Return the stored form of a JSON value, unless it is one already. Raises CodecUnavailable."""
    codec = current()
    if codec is None or value is None or is_sealed(value):
        return value
    return envelope(codec, json.dumps(value).encode(), place)


def sealed_body(body: bytes | None, place: Place) -> bytes | None:
    """Return the stored form of a raw body. Raises CodecUnavailable."""
    codec = current()
    if codec is None or body is None:
        return body
    return BODY_MARK + json.dumps(envelope(codec, body, place)).encode()


def envelope(codec: Codec, data: bytes, place: Place) -> dict[str, Any]:
    """Encode data and return its stored form. Raises CodecUnavailable if the codec fails in any way."""
    try:
        return {MARK: codec.name, "v": codec.version, "data": codec.encode(data, place)}
    except CodecUnavailable:
        raise
    except Exception as error:
        raise unavailable(codec, error, place) from error


def opened(value: Any, place: Place) -> Any:
    """Return the JSON value behind a stored form; any other value stays as it is.

    Raises PayloadUndecodable, and CodecUnavailable when a later attempt may succeed.
    """
    return json.loads(unpacked(value, place)) if is_sealed(value) else value


def opened_body(body: bytes | None, place: Place) -> bytes | None:
    """Return the body behind a stored form, see :func:`opened`."""
    if body is None or not is_sealed_body(body):
        return body
    return unpacked(json.loads(body[len(BODY_MARK) :]), place)


def unpacked(value: Mapping[str, Any], place: Place) -> bytes:
    """Decode a stored form.

    Raises PayloadUndecodable if no later attempt can succeed, also if PAYLOAD_CODEC is another codec than the one that
    encoded it; CodecUnavailable if the codec fails in any other way.
    """
    codec = current()
    if codec is None or codec.name != value[MARK]:
        named = "is not set" if codec is None else f"is {codec.name!r}"
        raise PayloadUndecodable(
            f"it is encoded by {str(value[MARK])[:100]!r}, and PAYLOAD_CODEC {named}",
            hint="Set the codec that it was stored with, and redrive.",
        )
    try:
        return codec.decode(value["data"], value["v"], place)
    except (PayloadUndecodable, CodecUnavailable):
        raise
    except Exception as error:
        raise unavailable(codec, error, place) from error


def unavailable(codec: Codec, error: Exception, place: Place) -> CodecUnavailable:
    """Return the exception for a codec that failed."""
    # Only the type: the text may quote the payload.
    return CodecUnavailable(
        f"the codec {codec.name!r} failed with {type(error).__name__} for {place.queue}/{place.channel}",
        hint="Look at the cause, which is often the service that gives the keys.",
    )


def problems(keys: Any) -> Iterable[str]:
    """Yield what is wrong with PAYLOAD_KEYS, for the system check; never a key."""
    try:
        from cryptography.fernet import Fernet
    except ImportError:
        yield "cryptography is not installed: pip install 'pgqueue-django[crypto]'"
        return
    if isinstance(keys, str):
        try:
            if not callable(import_string(keys)):
                yield "PAYLOAD_KEYS names something that cannot be called"
        except ImportError:
            yield "PAYLOAD_KEYS is a text that is not the dotted path of a function; give a list of keys"
        return
    if callable(keys):
        return
    if not isinstance(keys, list | tuple) or not keys:
        yield "PAYLOAD_KEYS has no key: make one with cryptography.fernet.Fernet.generate_key()"
        return
    for number, key in enumerate(keys, 1):
        try:
            Fernet(key)
        except (ValueError, TypeError):
            yield f"key {number} of PAYLOAD_KEYS is not a key of Fernet: 32 bytes in url-safe base64"
