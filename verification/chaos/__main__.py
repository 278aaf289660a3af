"""python -m verification.chaos                    a run of the tier `ci`: faults, then calm, then the checker
python -m verification.chaos --tier nightly --seed 7
python -m verification.chaos check FOLDER        check a history again; with --model against the TLA+ model, too
python -m verification.chaos sabotage [NAME …]   put defects into the queue, and see that each is noticed
python -m verification.chaos storm               a short run without worker processes
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import tempfile
from pathlib import Path

from verification.formal.follow import follow

from .checker import check
from .driver.plan import TIERS
from .driver.report import report
from .driver.run import Run
from .history import load
from .promotion import promotion
from .sabotage.defects import DEFECTS
from .sabotage.run import hunt
from .server import private_server
from .storm import Storm


def main() -> int:
    chosen = arguments()
    if chosen.what == "check":
        return verdict(Path(chosen.names[0]), model=chosen.model)
    folder = chosen.folder or Path(tempfile.mkdtemp(prefix="pgqueue-chaos-"))
    seed = chosen.seed if chosen.seed is not None else random.SystemRandom().randrange(1_000_000)
    print(f"seed {seed}, history in {folder}", flush=True)
    if chosen.what == "sabotage":
        return sabotage(folder, chosen.names, seed)
    tier = TIERS[chosen.tier]
    with private_server(small_disk="full disk" in tier.faults, max_connections="150") as server:
        if chosen.what == "storm":
            Storm(server.make_database("storm"), folder, seed, server=server).run()
        else:
            Run(server, folder, tier, seed, say=lambda text: print(text, flush=True)).play()
    broken = verdict(folder, model=chosen.model)
    if chosen.what == "run":
        for number in range(1, tier.promotions + 1):
            broken |= promote(folder, seed + number, number)
    print(f"report: {folder / 'report.md'}")
    return broken


def promote(folder: Path, seed: int, number: int) -> int:
    """Promote a standby, every second time a synchronous one, and add the result to the report."""
    played, history = promotion(folder / f"promotion-{number}", seed, synchronous=number % 2 == 0)
    broken = [text for verdict in check(history) for text in verdict.violations]
    report_lines = "\n".join([f"- {played}; {len(broken)} violations", *(f"  - {text}" for text in broken)])
    print(report_lines, flush=True)
    with (folder / "report.md").open("a") as report:
        report.write(report_lines + "\n")
    return int(bool(broken))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m verification.chaos", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="?", default="run", choices=["run", "check", "sabotage", "storm"])
    parser.add_argument("names", nargs="*", help="a folder, or parts of the names of defects")
    parser.add_argument("--tier", default="ci", choices=TIERS)
    parser.add_argument("--seed", type=int, help="the same faults in the same order; default: a new one")
    parser.add_argument("--model", action="store_true", help="follow each commit in the TLA+ model (needs Java 17)")
    parser.add_argument("--folder", type=Path, help="where the history goes; default: a new temporary folder")
    chosen = parser.parse_args()
    if chosen.what == "check" and len(chosen.names) != 1:
        parser.error("check takes one folder")
    return chosen


def verdict(folder: Path, *, model: bool) -> int:
    # Millions of small objects that all stay: looking through them for garbage takes longer than the checks.
    gc.disable()
    history = load(folder)
    verdicts = check(history)
    followed = follow(history) if model else None
    text = report(history, verdicts) + (f"\n\n{followed}" if followed else "")
    (folder / "report.md").write_text(text + "\n")
    print(text)
    gc.enable()
    # A storm of seconds may have nothing to say about an invariant; a run may not.
    silent = history.run.get("kind") == "chaos" and not all(verdict.checked for verdict in verdicts)
    unclean = bool(history.run.get("unclean"))
    refused = followed is not None and bool(followed.refused)
    return int(silent or unclean or refused or any(verdict.broken for verdict in verdicts))


def sabotage(folder: Path, names: list[str], seed: int) -> int:
    defects = [defect for defect in DEFECTS if not names or any(name in defect.name for name in names)]
    missed = 0
    with private_server() as server:
        for catch in hunt(server, folder, defects, seed):
            print(f"{catch}\n    {catch.example[:200]}", flush=True)
            missed += not catch.caught
    print(f"{len(defects) - missed} of {len(defects)} noticed")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
