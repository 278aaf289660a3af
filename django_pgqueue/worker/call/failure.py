"""Exceptions as JSON: what is kept with a message about an attempt that failed. No locals, and no known secrets."""

from __future__ import annotations

import traceback
from collections.abc import Iterator

from django_pgqueue.redaction import HIDDEN, redact

LONGEST_MESSAGE = 2_000
LONGEST_TRACEBACK = 10_000
LONGEST_CHAIN = 10
OWN_FRAMES = ("django_pgqueue.worker.", "django_pgqueue.tasks.execute")
LONGEST_GROUP = 10
# Violations of NOT NULL and CHECK: their detail shows the whole row, in the language of the server.
SHOWS_ROW = {"23502", "23514"}
# Of an endless text so much is searched for secrets.
LONGEST_SEARCHED = 100_000


def describe_error(error: BaseException) -> dict[str, str]:
    """Type, message and traceback of an exception, fit for jsonb and of bounded length."""
    return {
        "type": type_name(error),
        "message": redacted_text(error_text(error), LONGEST_MESSAGE),
        "traceback": redacted_text("\n".join(traceback_lines(error)), LONGEST_TRACEBACK),
    }


def type_name(error: BaseException) -> str:
    kind = type(error)
    return (
        kind.__qualname__ if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}.{kind.__qualname__}"
    )


def error_text(error: BaseException) -> str:
    try:
        return without_row(str(error), error)
    except Exception:  # a broken __str__ must not hide the failure
        return "(the exception cannot be shown as text)"


def without_row(text: str, error: BaseException) -> str:
    for shown in (error, error.__cause__):
        if getattr(shown, "sqlstate", None) in SHOWS_ROW and (detail := shown.diag.message_detail):  # type: ignore[union-attr]  # sqlstate is psycopg's
            text = text.replace(detail, HIDDEN)
    return text


def redacted_text(text: str, longest: int) -> str:
    """Redacted before it is cut: half a secret would not be known as one."""
    return storable_text(redact(storable_text(text, LONGEST_SEARCHED)), longest)


def storable_text(text: str, longest: int) -> str:
    """The text without what PostgreSQL refuses (NUL, lone surrogates), the middle cut out if it is too long."""
    if len(text) > longest:
        text = f"{text[: longest // 2]}\n… {len(text) - longest} characters left out …\n{text[-(longest // 2) :]}"
    return text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode()


def traceback_lines(error: BaseException) -> Iterator[str]:
    for link, introduction in error_chain(error):
        if link.__traceback__ is not None:
            yield "Traceback (most recent call last):"
        yield from frame_lines(link)
        yield f"{type_name(link)}: {error_text(link)}"
        yield from notes_of(link)
        if isinstance(link, BaseExceptionGroup):
            for inner in link.exceptions[:LONGEST_GROUP]:
                yield f"  + {type_name(inner)}: {error_text(inner)}"
                yield from notes_of(inner)
        if introduction:
            yield f"\n{introduction}\n"


def frame_lines(error: BaseException) -> Iterator[str]:
    """Yield the lines of the frames, with those of the source, as Python prints them."""
    walked = traceback.walk_tb(error.__traceback__)
    summaries = traceback.extract_tb(error.__traceback__)
    # The first frames are the queue's own.
    theirs = [
        summary
        for (frame, _), summary in zip(walked, summaries, strict=False)
        if not frame.f_globals.get("__name__", "").startswith(OWN_FRAMES)
    ]
    for text in traceback.StackSummary.from_list(theirs).format():
        yield text.rstrip("\n")


def notes_of(error: BaseException) -> list[str]:
    found = getattr(error, "__notes__", ())
    return [note for note in found if isinstance(note, str)] if isinstance(found, list) else []


def error_chain(error: BaseException) -> list[tuple[BaseException, str]]:
    """The exception and what led to it, oldest first, each with the words that lead to the next."""
    found: list[tuple[BaseException, str]] = [(error, "")]
    seen = {id(error)}
    while len(found) < LONGEST_CHAIN:
        last = found[-1][0]
        if last.__cause__ is not None:
            earlier, words = last.__cause__, "The above exception was the direct cause of the following exception:"
        elif last.__context__ is not None and not last.__suppress_context__:
            earlier, words = last.__context__, "During handling of the above exception, another exception occurred:"
        else:
            break
        if id(earlier) in seen:
            break
        seen.add(id(earlier))
        found.append((earlier, words))
    return found[::-1]
