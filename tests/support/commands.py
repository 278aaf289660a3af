"""Management commands, called in the process of the test."""

from __future__ import annotations

from io import StringIO
from typing import Any

from django.core.management import call_command


def output_of(command: str, *arguments: object, **options: Any) -> str:
    """Return what a command prints. The arguments are those of the command line, the options those of Django."""
    output = StringIO()
    call_command(command, *map(str, arguments), stdout=output, **options)
    return output.getvalue()


def status_and_output_of(command: str, *arguments: object, **options: Any) -> tuple[int, str]:
    """Return the exit status of a command, and what it prints."""
    output = StringIO()
    try:
        call_command(command, *map(str, arguments), stdout=output, **options)
    except SystemExit as end:
        return int(end.code or 0), output.getvalue()
    return 0, output.getvalue()
