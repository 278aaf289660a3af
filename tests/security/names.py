"""Names that are text to the queue, and something else to code that forgets to quote them."""

from __future__ import annotations

NAMES = {
    "quotes": "O'Neill \"quoted\" `back` $$ $1 \\'; --",
    "SQL": "x'); DROP TABLE pgqueue_message; --",
    "patterns": "%s %% {0} {name} _ \\_ *",
    "paths": "../../etc/passwd",
    "partition": "day=2026-01-01/channel=x",
    "options": "--database=other",
    "HTML": "<script>alert(1)</script>\"'&amp;",
    "lines": "one\ntwo\r\n2026-01-01 00:00:00,000 CRITICAL forged\x0b\x0c\x85\u2028\u2029",
    "terminal": "\x1b[2J\x1b]0;title\x07\x08\x7f",
    "direction": "\u202egnp.exe\u202c \u2066\u2069",
    "invisible": "\u200b\ufeff\u00ad",
    "beyond the plane": "\U0001d4d0\U0001f92f" * 50,
    "combining": "Z͑ͫ" * 33,
    "JSON": '{"a": [1, null]}\\u0000',
    "blank": " ",
    "as long as may be": "x" * 100,
}
# They differ only behind the 63 bytes of PostgreSQL's identifiers.
ALIKE = ["n" * 63 + "a", "n" * 63 + "b"]
