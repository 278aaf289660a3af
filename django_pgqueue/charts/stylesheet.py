"""Read the CSS of the charts: a static file for pages of Django, text for a page that stands alone."""

from __future__ import annotations

from importlib.resources import files


def stylesheet() -> str:
    """Return the CSS of the charts."""
    return files("django_pgqueue").joinpath("static/django_pgqueue/charts.css").read_text(encoding="utf-8")
