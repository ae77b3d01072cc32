"""One line on what to do, where the evidence supports one."""

from __future__ import annotations

from scalana.detectors.findings import Finding


def advise(finding: Finding, ranks: int) -> str:
    """Return a sentence, or "" where the evidence does not tell."""
    evidence = finding.evidence
    cpu = evidence.get("cpu_share")
    helper = evidence.get("helper_share")
    if finding.kind == "carried-in":
        return "These ranks were late before recording began; record from the start of the job to see why."
    if finding.kind == "unresolved":
        return "The samples do not explain this lateness; a higher --rate may."
    if finding.kind == "waiting-for-core":
        return "Ranks wait here for a CPU core: give each rank a core of its own, or fewer threads."
    if finding.kind == "slow-transfer":
        return "The data itself arrives late here: look at message size, network and placement."
    if isinstance(helper, float) and helper > 0.5:
        return "The rank waits for this work of its own background thread or worker: make it faster, or add workers."
    if finding.kind == "serial":
        return "Only this rank works while all others wait: share the work, or move it off the critical path."
    if len(finding.ranks) > 1 and len(finding.ranks) >= ranks / 2:
        return "A different rank is late each time: balance this work within every step, not only over the run."
    waiting = evidence.get("core_wait_share")
    if isinstance(cpu, float) and isinstance(waiting, float):
        if cpu + waiting < 0.3:
            return "The time is spent off the CPU (I/O, sleeping or a lock): overlap or remove it on this rank."
        if cpu + waiting > 0.7 and evidence.get("seconds_others"):
            return "The same code computes longer here than on other ranks: balance its input, or check this core."
    return ""
