"""Import from Procrastinate, from 3.0: moved jobs are cancelled there. Its locks become channels."""

from django_pgqueue.importing.source import ImportSource

PROCRASTINATE = ImportSource(
    name="procrastinate",
    table="procrastinate_jobs",
    header="procrastinate_job",
    waiting="todo",
    running="doing",
    count="""
SELECT task_name, queue_name, count(*) FILTER (WHERE status = 'todo'), count(*) FILTER (WHERE status = 'doing')
FROM procrastinate_jobs
WHERE status IN ('todo', 'doing')
GROUP BY task_name, queue_name
ORDER BY task_name, queue_name
""",
    take="""
SELECT id::text, task_name, queue_name, args::text, priority, scheduled_at::text, lock, queueing_lock
FROM procrastinate_jobs
WHERE status::text = ANY(%s) AND task_name = ANY(%s)
ORDER BY priority DESC, id
LIMIT %s
FOR UPDATE SKIP LOCKED
""",
    settle="""
UPDATE procrastinate_jobs
SET status = (CASE status WHEN 'doing' THEN 'aborted' ELSE 'cancelled' END)::procrastinate_job_status,
    abort_requested = false
WHERE id = ANY(%s::bigint[])
RETURNING id
""",
)
