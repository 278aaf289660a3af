"""``manage.py demo``: load → work → report → check."""
