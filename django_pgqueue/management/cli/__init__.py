"""The verbs of ``manage.py pgqueue``, by the things that they show or change."""
