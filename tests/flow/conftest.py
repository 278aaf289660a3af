from __future__ import annotations

from tests.support.default_channel import _default_channel  # noqa: F401  (a fixture)
