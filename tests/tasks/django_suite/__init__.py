"""Django's own tests of the Tasks framework, from the source distribution of the Django that is installed, run against
the backend of this project.

``python -m tests.tasks.django_suite fetch`` brings the distribution by pip and unpacks its ``tests/tasks``;
``python -m tests.tasks.django_suite run`` runs them on the database of DATABASE_URL and prints the outcome of
each.
"""
