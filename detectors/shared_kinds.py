"""The kinds of causes that all ranks share: one row each."""

from __future__ import annotations

from scalana.detectors.kind import OF_ALL, Claim, Kind


def _of_all(name: str, meaning: str, rule: str, doing: str, mended: str) -> Kind:
    """A cause that all ranks share: its claim is how much of a step they spend ``doing`` it, or of a run without
    steps."""
    spends = "{Ranks} {spends|spend}"
    claims = (
        Claim(f"{spends} {{seconds:limit_s}} of an average step of {{seconds:step_s}} {doing}", ("limit_s", "step_s")),
        Claim(f"{spends} {{seconds:limit_s}} of {{seconds:run_s}} {doing}", ("limit_s", "run_s")),
        Claim(f"{spends} time {doing}"),
    )
    return Kind(name, meaning, rule, claims, unit=OF_ALL, mended=mended, spends=False, is_shared=True)


SHARED = (
    _of_all(
        "collection-bound",
        "all ranks collect garbage in their steps",
        "All ranks collect garbage in every step.",
        "collecting garbage",
        "without it",
    ),
    _of_all(
        "write-bound",
        "all ranks write checkpoints, logs or other files in their steps, and wait for that",
        "All ranks write to disk in their steps.",
        "writing to disk",
        "without waiting for it",
    ),
    _of_all(
        "lock-bound",
        "all ranks wait for locks, of their own threads or of files",
        "All ranks wait for locks in their steps.",
        "waiting for a lock",
        "without it",
    ),
    _of_all(
        "pickle-bound",
        "all ranks serialise objects in their steps",
        "All ranks serialise objects in their steps.",
        "serialising objects",
        "without it",
    ),
    _of_all(
        "program-bound",
        "all ranks start other programs in their steps, and wait for them",
        "All ranks wait for programs that they start.",
        "waiting for programs that they start",
        "without it",
    ),
    _of_all(
        "read-bound",
        "all ranks wait for input from files, pipes or sockets in their steps",
        "All ranks wait for input in their steps.",
        "waiting for input",
        "without it",
    ),
    _of_all(
        "communication-bound",
        "the transfers of all ranks take a large part of a step, though no rank is late; `saving_s` is for an ideal "
        "network",
        "Communication takes a large part of every step.",
        "in transfers, without waiting for other ranks or for cores",
        "on an ideal network",
    ),
    _of_all(
        "core-bound",
        "the processes and threads of the job keep all cores of a host busy, and wait for their turns; `saving_s` is "
        "for a core for each",
        "The job keeps all cores of a host busy.",
        "ready to run, but waiting for a core",
        "with a core for each",
    ),
)
"""A row: name, meaning, rule, what ranks are doing meanwhile, and when the run would be shorter."""
