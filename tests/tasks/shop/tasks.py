from django_pgqueue.tasks.compat import task
from tests.tasks.shop.mail import greet

__all__ = ["greet", "pack"]


@task
def pack() -> None: ...
