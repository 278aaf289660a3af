import re

# The tables and functions of the app django_pgqueue.pipeline, as an error of PostgreSQL names them.
PIPELINE = re.compile(r"\bpgqueue_(lake|queue_metric|backlog_forecast|ingest|stream)")
NO_TABLES = (
    "It lacks tables or functions of the pipeline: "
    'add "django_pgqueue.pipeline" to INSTALLED_APPS and run manage.py migrate.'
)


class PipelineError(Exception):
    """The pipeline cannot do what was asked; the message is one line that says what to do."""
