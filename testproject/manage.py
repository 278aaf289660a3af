#!/usr/bin/env python
import os
import sys

from django.core.management import execute_from_command_line

from django_pgqueue.embedded import EmbeddedError


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "testproject.settings")
    try:
        execute_from_command_line(sys.argv)
    except EmbeddedError as error:
        sys.exit(f"manage.py: {error}")


if __name__ == "__main__":
    main()
