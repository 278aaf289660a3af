"""Show the state of every queue on one page, which reads figures and no messages."""

from django_pgqueue.admin.dashboard.page import DashboardAdmin

__all__ = ["DashboardAdmin"]
