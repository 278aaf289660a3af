"""Describe exceptions as JSON, to be kept with the message: without local variables and known secrets."""

from __future__ import annotations

import traceback
from collections.abc import Iterator

from django_pgqueue.redaction import HIDDEN, redact
from django_pgqueue.worker import numbers

OWN_FRAMES = ("django_pgqueue.worker.", "django_pgqueue.tasks.execute")
# Violations of NOT NULL and CHECK: their detail contains the whole row, in the language of the server.
SHOWS_ROW = {"23502", "23514"}


def describe_error(error: BaseException) -> dict[str, str]:
    """Return type, message and traceback of an exception, as text that jsonb takes, with secrets hidden.

    The message has at most MESSAGE_CHARACTERS, the traceback TRACEBACK_CHARACTERS; a longer one loses its middle.
    """
    return {
        "type": type_name(error),
        "message": redacted_text(error_text(error), numbers.MESSAGE_CHARACTERS),
        "traceback": redacted_text("\n".join(traceback_lines(error)), numbers.TRACEBACK_CHARACTERS),
    }


def type_name(error: BaseException) -> str:
    """Return the dotted path of the exception's class; a built-in class has no module."""
    kind = type(error)
    return (
        kind.__qualname__ if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}.{kind.__qualname__}"
    )


def error_text(error: BaseException) -> str:
    """Return the text of the exception without rows of the database; a fixed text if it cannot be shown."""
    try:
        return without_row(str(error), error)
    except Exception:  # a broken __str__ must not hide the failure
        return "(the exception cannot be shown as text)"


def without_row(text: str, error: BaseException) -> str:
    """Return the text with the row hidden that PostgreSQL quotes in a violation of NOT NULL or CHECK.

    ``text``: the text of ``error``, which is psycopg's exception or has it as its cause.
    """
    for shown in (error, error.__cause__):
        if getattr(shown, "sqlstate", None) in SHOWS_ROW and (detail := shown.diag.message_detail):  # type: ignore[union-attr]  # sqlstate is psycopg's
            text = text.replace(detail, HIDDEN)
    return text


def redacted_text(text: str, longest: int) -> str:
    """Return the text with its secrets hidden, of at most ``longest`` characters.

    The secrets are hidden before the text is cut, because half a secret would not be recognized.
    """
    return storable_text(redact(storable_text(text, numbers.SEARCHED_CHARACTERS)), longest)


def storable_text(text: str, longest: int) -> str:
    """Return the text with NUL and lone surrogates escaped, which PostgreSQL refuses.

    If it has more than ``longest`` characters, its middle is cut out.
    """
    if len(text) > longest:
        text = f"{text[: longest // 2]}\n… {len(text) - longest} characters left out …\n{text[-(longest // 2) :]}"
    return text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode()


def traceback_lines(error: BaseException) -> Iterator[str]:
    """Yield the lines of the traceback of an exception and of its causes, oldest first, as Python prints them."""
    for link, introduction in error_chain(error):
        if link.__traceback__ is not None:
            yield "Traceback (most recent call last):"
        yield from frame_lines(link)
        yield f"{type_name(link)}: {error_text(link)}"
        yield from notes_of(link)
        if isinstance(link, BaseExceptionGroup):
            for inner in link.exceptions[: numbers.GROUP_ERRORS]:
                yield f"  + {type_name(inner)}: {error_text(inner)}"
                yield from notes_of(inner)
        if introduction:
            yield f"\n{introduction}\n"


def frame_lines(error: BaseException) -> Iterator[str]:
    """Yield the lines of the exception's frames with their source; the queue's own first frames are left out."""
    walked = traceback.walk_tb(error.__traceback__)
    summaries = traceback.extract_tb(error.__traceback__)
    theirs = [
        summary
        for (frame, _), summary in zip(walked, summaries, strict=False)
        if not frame.f_globals.get("__name__", "").startswith(OWN_FRAMES)
    ]
    for text in traceback.StackSummary.from_list(theirs).format():
        yield text.rstrip("\n")


def notes_of(error: BaseException) -> list[str]:
    """Return the notes that were added to the exception."""
    found = getattr(error, "__notes__", ())
    return [note for note in found if isinstance(note, str)] if isinstance(found, list) else []


def error_chain(error: BaseException) -> list[tuple[BaseException, str]]:
    """Return the exception and its causes, oldest first, each with the sentence that leads to the next one.

    At most CHAIN_ERRORS; the last one, ``error`` itself, has an empty sentence.
    """
    found: list[tuple[BaseException, str]] = [(error, "")]
    seen = {id(error)}
    while len(found) < numbers.CHAIN_ERRORS:
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
