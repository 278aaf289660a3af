"""Show one channel on one page: what its messages wait for, and how those of the last day ended."""
