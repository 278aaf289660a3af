from __future__ import annotations

from django_pgqueue import Delivery, handler


@handler("broken.first")
def first(delivery: Delivery) -> None:
    """Registered before the import fails: it would miss what comes after it."""


import a_module_that_nobody_has  # noqa: E402, F401
