"""What has launchers hand recorders' variables on to other hosts, where they do not hand on all by themselves."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from scalana.runtime.mpi import forwarding
from scalana.runtime.record import layout


def handed_on(command: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Further variables of a job, whose environment names its run folder."""
    return {**forwarding.forwarding(command, environ), layout.PASSED_ON_VARIABLE: passed_on(environ)}


def passed_on(environ: Mapping[str, str]) -> str:
    """All variables of a recorded job, as one whose name begins with ``PYTHON``.

    The launcher of deepspeed hands on variables of such names alone: others would need a file, which it names in its
    output. The start-up hook takes it apart (``runtime/bootstrap/sitecustomize.py``) in processes that have none of
    ours. No shell on the way changes its characters.
    """
    ours = sorted((name, value) for name, value in environ.items() if name.startswith("SCALANA_"))
    return ":".join(f"{name}={os.fsencode(value).hex()}" for name, value in ours)
