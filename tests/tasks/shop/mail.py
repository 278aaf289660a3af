from django_pgqueue.tasks.compat import task


@task
def greet() -> None: ...
