"""Draw charts as HTML with SVG on the server: no script, no style attribute, so they work under a strict CSP.

Each function returns one ``<figure>`` (or, the sparkline and the meter, one ``<svg>``) whose colours come from the
classes of `stylesheet()`; light and dark follow the reader's settings. All text is escaped here, because titles and
names may come from outside.
"""

from django_pgqueue.charts.frame import stylesheet, text
from django_pgqueue.charts.plots import Series, line_plot, meter, sparkline, stack
from django_pgqueue.charts.scale import value_text

__all__ = ["Series", "line_plot", "meter", "sparkline", "stack", "stylesheet", "text", "value_text"]
