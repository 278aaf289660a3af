"""The dashboard: how every queue is, on one page that reads figures and no messages."""

from django_pgqueue.admin.dashboard.page import DashboardAdmin

__all__ = ["DashboardAdmin"]
