"""Import from django-tasks-db, from 0.12: moved rows are deleted there, because it has no cancelled state.

The payload is that of the backend for ``django.tasks``, so that the backend runs the message.
"""

from django_pgqueue.importing.source import ImportSource

TASKS_DB = ImportSource(
    name="django-tasks-db",
    table="django_tasks_database_dbtaskresult",
    header="django_tasks_db_result",
    waiting="READY",
    running="RUNNING",
    count="""
SELECT task_path, queue_name, count(*) FILTER (WHERE status = 'READY'), count(*) FILTER (WHERE status = 'RUNNING')
FROM django_tasks_database_dbtaskresult
WHERE status IN ('READY', 'RUNNING')
GROUP BY task_path, queue_name
ORDER BY task_path, queue_name
""",
    # Without a time to run after, run_after is the first day of the year 9999, in the time zone of the project.
    take="""
SELECT id::text, task_path, queue_name, args_kwargs::text, priority,
    CASE WHEN run_after < '9998-12-30' THEN run_after::text END, NULL, NULL
FROM django_tasks_database_dbtaskresult
WHERE status = ANY(%s) AND task_path = ANY(%s)
ORDER BY priority DESC, run_after, enqueued_at, id
LIMIT %s
FOR UPDATE SKIP LOCKED
""",
    settle="DELETE FROM django_tasks_database_dbtaskresult WHERE id = ANY(%s::uuid[]) RETURNING id",
)
