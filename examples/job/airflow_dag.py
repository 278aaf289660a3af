from datetime import UTC, datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

with DAG(
    "queue_lake", schedule="@hourly", start_date=datetime(2026, 1, 1, tzinfo=UTC), catchup=False, max_active_runs=1
):
    options = {"retries": 3, "retry_delay": timedelta(minutes=1), "append_env": True}
    export = BashOperator(
        task_id="export", bash_command="python -m django_pgqueue.spark export --lake $LAKE", **options
    )
    rollup = BashOperator(
        task_id="rollup", bash_command="python -m django_pgqueue.spark rollup --lake $LAKE", **options
    )
    export >> rollup
