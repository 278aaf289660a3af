"""Show one channel on one page: what its messages wait for, and what became of those of the last day."""

from django_pgqueue.admin.tenant.page import TenantAdmin

__all__ = ["TenantAdmin"]
