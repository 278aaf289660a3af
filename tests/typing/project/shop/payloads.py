from dataclasses import dataclass
from datetime import date
from typing import NotRequired, TypedDict


class OrderPayload(TypedDict):
    order: int
    copies_to: NotRequired[list[str]]


@dataclass(frozen=True)
class Invoice:
    order: int
    due: date
