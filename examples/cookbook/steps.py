"""A workflow: an upload is stored, scanned and announced. Each step enqueues the next one exactly once."""

from django_pgqueue import Delivery, Reject, enqueue, handler


def uploaded(customer: str, file: str) -> None:
    enqueue("upload.scan", {"file": file}, channel=customer)


@handler("upload.scan", atomic=True)
def scan(delivery: Delivery) -> Reject | None:
    """`atomic`: if the completion of this step is lost, so is the next message."""
    if is_infected(delivery.payload["file"]):
        return Reject("infected")
    following(delivery, "upload.resize")
    return None


@handler("upload.resize", atomic=True)
def resize(delivery: Delivery) -> None:
    following(delivery, "upload.announce")


@handler("upload.announce")
def announce(delivery: Delivery) -> None: ...


def following(delivery: Delivery, step: str) -> None:
    enqueue(step, delivery.payload, channel=delivery.channel)


def is_infected(file: str) -> bool:
    return file.endswith(".exe")  # yours
