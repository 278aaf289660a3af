"""Statement triggers that run a function of sql/functions, where the body is versioned and checked like all others."""

from __future__ import annotations

import pgtrigger
from django.db import models


class RunsFunction(pgtrigger.Trigger):
    """A pgtrigger trigger whose action is ``pgqueue_<name>()``: no guard per call, plans pinned, and nobody can
    ignore it."""

    level = pgtrigger.Statement
    when = pgtrigger.After
    func = "RETURN NULL;"

    def render_execute(self, model: models.Model) -> str:
        return f"pgqueue_{self.name}()"
