"""An app as projects have it: a table of its own (the groups of django.contrib.auth), handlers, views."""
