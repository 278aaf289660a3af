"""Write metrics in the text format of Prometheus, version 0.0.4."""

from __future__ import annotations

from collections.abc import Iterable

from django_pgqueue.contrib.prometheus.families import Family, Sample

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})


def render(families: Iterable[Family]) -> str:
    """Return the metrics in the text format of Prometheus, which ends with a line break."""
    lines = []
    for family in families:
        lines += [f"# HELP {family.name} {family.help}", f"# TYPE {family.name} {family.kind}"]
        lines += [
            f"{family.name}{sample.suffix}{labelled(sample)} {float(sample.value)!r}" for sample in family.samples
        ]
    return "\n".join(lines) + "\n"


def labelled(sample: Sample) -> str:
    """Return the labels of a sample as text."""
    if not sample.labels:
        return ""
    return "{" + ",".join(f'{name}="{value.translate(ESCAPES)}"' for name, value in sample.labels.items()) + "}"
