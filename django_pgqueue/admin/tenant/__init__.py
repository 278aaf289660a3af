"""Show one channel on one page: what its messages wait for, and how those of the last day ended."""

from django_pgqueue.admin.tenant.page import TenantAdmin

__all__ = ["TenantAdmin"]
