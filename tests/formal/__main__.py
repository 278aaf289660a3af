"""python -m tests.formal [NAME …]    check the models, or those that have a part of their name so; all sizes"""

from __future__ import annotations

import sys

from .models import MODELS


def main(names: list[str]) -> int:
    wrong = 0
    for model in MODELS:
        if names and not any(name in model.name for name in names):
            continue
        answer = model.check()
        as_expected = answer.violated == model.breaks
        wrong += not as_expected
        found = f"{answer.violated} after {len(answer.steps) - 1} steps" if answer.violated else "holds"
        expected = "" if as_expected else f"  EXPECTED {model.breaks or 'to hold'}"
        print(
            f"{model.module:13} {model.name:66} {found:40} {answer.states:9,} states {answer.seconds:6.1f} s{expected}",
            flush=True,
        )
        if not as_expected:
            print(answer.output[-60000:])
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
