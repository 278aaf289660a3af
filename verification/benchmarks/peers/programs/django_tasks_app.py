"""django-tasks-db: tasks that are enqueued with Django's own connection."""

import common
import django

django.setup()

import django_tasks_handlers as handlers  # noqa: E402 (models need django.setup first)
from django.core.management import call_command  # noqa: E402
from django_tasks_db.models import DBTaskResult, get_date_max  # noqa: E402


def fill(count: int) -> None:
    """There is no bulk enqueue; this writes what `enqueue` writes."""
    for keys in common.chunks(count):
        DBTaskResult.objects.bulk_create(
            DBTaskResult(
                task_path=handlers.noop.module_path,
                args_kwargs={"args": [], "kwargs": common.payload(key)},
                run_after=get_date_max(),
                backend_name="default",
            )
            for key in keys
        )


def main() -> None:
    verb, count, plan = common.arguments()
    if verb == "install":
        call_command("migrate", verbosity=0)
    elif verb == "fill":
        fill(count)
    else:
        common.produce(plan, lambda task, key: getattr(handlers, task).enqueue(**common.payload(key)))


if __name__ == "__main__":
    main()
