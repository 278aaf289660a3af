from typing import Any

from django.db import migrations

from django_pgqueue.sql import files
from django_pgqueue.sql.operations import install


def replace_all(apps: Any, schema_editor: Any) -> None:
    for name, version in files.latest_functions([files.QUEUE]).items():
        install(schema_editor, name, version)


class Migration(migrations.Migration):
    dependencies = [("pgqueue", "0003_triggers")]
    operations = [migrations.RunPython(replace_all, replace_all)]
