"""python -m verification.formal [NAME …]    check the models, or those whose names contain one of these; all sizes

Without a guard: the property that is violated then, and the steps that lead there. With -v the states on the way, too.
"""

from __future__ import annotations

import sys

from .models import MODELS, Model
from .tlc import Answer


def main(words: list[str]) -> int:
    names = [word for word in words if word != "-v"]
    wrong = 0
    for model in MODELS:
        if names and not any(name in model.name for name in names):
            continue
        answer = model.check()
        as_expected = answer.violated == model.breaks
        wrong += not as_expected
        print(line(model, answer), flush=True)
        if "-v" in words or not as_expected:
            print(answer.output)
    return int(wrong > 0)


def line(model: Model, answer: Answer) -> str:
    found = f"{answer.violated} after {len(answer.steps) - 1} steps" if answer.violated else "holds"
    expected = "" if answer.violated == model.breaks else f", EXPECTED {model.breaks or 'to hold'}"
    way = f"\n    {', '.join(answer.steps[1:])}" if answer.violated else ""
    seen = f"{answer.states:,} states, {answer.seconds:.1f} s"
    return f"{model.module}: {model.name}: {found}{expected} ({seen}){way}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
