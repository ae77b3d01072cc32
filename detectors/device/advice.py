"""What to do about a device that is late or idle, and the causes on its host, in words."""

from __future__ import annotations

import re

from scalana.detectors.evidence import DeviceTime
from scalana.detectors.finding import Finding
from scalana.detectors.kinds import BY_NAME
from scalana.detectors.when.advice import Reason

HOST_CAUSES = (
    (
        "the DataLoader",
        re.compile(r"DataLoader|_next_data|pin_memory|data_worker"),
        "Load ahead: use more workers, prefetching, or less work per sample on this rank.",
    ),
    (
        "device synchronisation",
        re.compile(r"Synchronize|aten::item|_local_scalar_dense|aten::nonzero|StreamWait"),
        "Do not synchronise with the device here: keep the value there, or read it once per step, after all launches.",
    ),
    (
        "blocking copies",
        re.compile(r"[Mm]emcpy|aten::_to_copy|aten::copy_"),
        "Copy from pinned memory, non-blocking, and ahead of time.",
    ),
    (
        "device memory allocation",
        re.compile(r"(?:cuda|hip)(?:Malloc|Free|HostAlloc|HostMalloc)"),
        "Reuse memory instead of allocating it: keep sizes constant, and call no empty_cache in the loop.",
    ),
)
"""What the host does instead of launching, by the name of the operator or call, and what to do about it; the first
that fits."""
INPUTS = "on inputs of {here}, where others have {others}"
ELEMENTS = "on inputs of {here:,.0f} elements, where others have {others:,.0f}"
NUMBER = "of which it runs {here:.0f}, others {others:.0f}"
NO_MORE = "although it runs no more of them than others"
LONGER = "which takes {ratio:.1f} times as long there"
NO_SUCH = "which others do not have"
SAME_SHAPE, SAME_SIZE = " on inputs of the same shape", " on inputs of the same size"
"""What is different about the work of a device, after its name."""

LAUNCH_BOUND = "the launch overhead of short kernels"
ADVICE_LAUNCH_BOUND = "Launch fewer kernels: fuse or batch operators, compile the model, or capture it in a graph."
ADVICE_SLOW = "Check this device: its clock, temperature, power limit and other jobs; try another one."
OTHER_CAUSE = "its own work"


def advise(finding: Finding) -> str:
    """Return what to do about a finding."""
    time = finding.evidence.device or DeviceTime()
    if time.slowdown:
        return ADVICE_SLOW
    if time.different:
        return Reason[time.different.upper()].value
    if time.cause == LAUNCH_BOUND:
        return ADVICE_LAUNCH_BOUND
    return next((advice for word, _, advice in HOST_CAUSES if word == time.cause), BY_NAME[finding.kind].advice)
