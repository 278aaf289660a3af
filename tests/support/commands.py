"""Management commands, called in the process of the test or in a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from io import StringIO
from typing import Any

from django.core.management import call_command

from tests.support.paths import REPOSITORY


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


def manage(*arguments: str, seconds: float = 280, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run testproject/manage.py in a process of its own, and wait for it.

    seconds     after which it is killed
    variables   of its environment, beside those of the test
    """
    return subprocess.run(
        [sys.executable, str(REPOSITORY / "testproject" / "manage.py"), *arguments],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def pgqueue(words: str, *arguments: object, **options: Any) -> str:
    """Return what ``manage.py pgqueue`` prints, without the end of the last line. ``words``: the verb and the thing."""
    return output_of("pgqueue", *words.split(), *arguments, **options).rstrip("\n")
