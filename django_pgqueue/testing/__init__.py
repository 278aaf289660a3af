"""Help the tests of projects that use the queue.

The names are resolved when they are first used: pytest loads the plugin of this package before Django has its settings.
"""

from importlib import import_module

_HOMES = {
    "drained": ("Drained", "Handled"),
    "drainer": ("adrain", "drain"),
    "waiting": ("assert_enqueued", "assert_not_enqueued", "enqueued"),
    "clock": ("Clock", "freeze_clock"),
    "schedules": ("fire_schedules",),
    "single": ("make_delivery", "run_handler"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return [*globals(), *_HOME_OF]
