"""`python -m verification.interleavings`: asks again, and writes the tables of answers.md anew."""

from __future__ import annotations

from django_pgqueue.embedded import temporary_cluster
from verification.model_based.clock import make_database

from .stage import APPS, opened
from .table import BLOCKS, CROSSED, PAGE, crossed, written


def main() -> None:
    with temporary_cluster() as cluster, opened(make_database(cluster.url("postgres"), "interleavings", APPS)) as stage:
        text = PAGE.read_text(encoding="utf-8")
        tables = {CROSSED: crossed(stage), **{block.heading: block.lines(block.ask(stage)) for block in BLOCKS}}
        for heading, lines in tables.items():
            text = text.replace("\n".join(written(heading)), "\n".join(lines))
        PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
