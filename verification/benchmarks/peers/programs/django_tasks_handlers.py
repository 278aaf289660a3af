import common
from django_tasks import task


@task()
def noop(**payload: object) -> None: ...


@task()
def mark(key: int, **payload: object) -> None:
    common.started(key)


@task()
def poison(key: int, **payload: object) -> None:
    common.poison(key)


@task()
def hold(key: int, **payload: object) -> None:
    common.hold(key)
