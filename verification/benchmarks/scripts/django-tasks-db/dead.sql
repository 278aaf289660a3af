SELECT count(*) FROM django_tasks_database_dbtaskresult WHERE status = 'FAILED';
