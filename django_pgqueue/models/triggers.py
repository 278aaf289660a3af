"""Define statement triggers that run a function of sql/functions, whose body is versioned and checked like all
others."""

from __future__ import annotations

import pgtrigger
from django.db import models


class RunsFunction(pgtrigger.Trigger):
    """Run ``pgqueue_<name>()`` in a pgtrigger trigger: without pgtrigger's guard, so that no session can ignore it."""

    level = pgtrigger.Statement
    when = pgtrigger.After
    func = "RETURN NULL;"

    def render_execute(self, model: models.Model) -> str:
        return f"pgqueue_{self.name}()"
