from __future__ import annotations

import sys

import tests.tasks.django_suite as package
from tests.tasks.django_suite import source


def main() -> int:
    match sys.argv[1:]:
        case ["fetch"]:
            print(source.fetch() or "Django 5.2 has no tests of tasks")
            return 0
        case ["run"]:
            from tests.tasks.django_suite import run

            run.main()
            return 0
    print(package.__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    raise SystemExit(main())
