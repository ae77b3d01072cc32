"""What is wrong with a workload, or with what is asked of one."""

from __future__ import annotations


class WorkloadError(ValueError):
    """A workload cannot be used; the message names the file or the option, and says what to try."""
