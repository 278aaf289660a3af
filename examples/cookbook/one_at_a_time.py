"""One at a time for each customer, and in order, while all others go on."""

from django_pgqueue import Delivery, channel_set, enqueue, handler


def add_customer(name: str) -> None:
    """One at a time; `ordered`: nothing overtakes a message that waits for its retry."""
    channel_set(channel=name, ordered=True)


def change(customer: str, number: int) -> None:
    enqueue("account.apply", {"change": number}, channel=customer)


def change_document(customer: str, document: int, number: int) -> None:
    """In an ordinary channel: one at a time for each document, and several documents beside each other."""
    enqueue("account.apply", {"change": number}, channel=customer, order_key=f"document-{document}")


@handler("account.apply")
def apply(delivery: Delivery) -> None: ...
