"""Calls of a language model: tokens a minute for each customer and for all, and a bound for calls at once."""

from dataclasses import dataclass

from django_pgqueue import Complete, Delivery, Limit, channel_set, enqueue, handler, spend

# 90,000 tokens a minute, and 20 calls at once, over all customers.
model_limit = Limit("llm", rate="90000/m", max_concurrency=20)


@dataclass(frozen=True)
class Answer:
    text: str
    tokens: int


def add_customer(name: str) -> None:
    """A rate counts the cost of a message, so this is 10,000 tokens a minute, and 5,000 at once."""
    channel_set(channel=name, rate="10000/m burst 5000")


def ask(customer: str, text: str) -> int:
    """Enqueue a question with an estimate of its cost, and return the id of its message."""
    return enqueue("llm.ask", {"text": text}, channel=customer, cost=len(text) // 3 + 500).id


@handler("llm.ask", limits=[model_limit])
def answer(delivery: Delivery) -> Complete:
    given = complete(delivery.payload["text"])
    spend(delivery, given.tokens)  # the estimate becomes the real cost: later calls pay the difference
    return Complete({"text": given.text})


def complete(text: str) -> Answer:
    return Answer(text.upper(), len(text))  # yours: the call of the provider
