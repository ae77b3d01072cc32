"""What a process is in a job of several worlds: trainer, rollout, verifier, driver. Public as ``scalana.role``.

A process learns its role from the program (:func:`role`), from the variable ``SCALANA_ROLE``, from ``torchrun --role``,
or from a recorder that knows who starts it and for what; who comes first in this list is believed.
"""

from __future__ import annotations

import os

from scalana.runtime import session

ROLE_VARIABLE = "SCALANA_ROLE"
TORCHRUN_ROLE, TORCHRUN_DEFAULT = "ROLE_NAME", "default"
_told: tuple[str, int] = ("", -1)


def role(name: str, rank: int | None = None) -> None:
    """Say what this process is in the job: ``scalana.role("rollout")``.

    A process that has a rank keeps it, and is called "rollout 3" in reports where the job has several roles. One that
    has none is from now on a process of its own in the report, numbered by ``rank`` or by its start.

    Args:
        name: What it is; processes of one name are of one kind.
        rank: Its number among these, where no launcher and no process group gives it one.
    """
    global _told
    _told = (str(name), -1 if rank is None else int(rank))
    session.become_member(*_told, source="program")


def tell_from_environment() -> None:
    """At the start of a record: what this process is told to be."""
    name = os.environ.get(ROLE_VARIABLE, "")
    kind = session.process_role
    if kind == "rank":
        launcher = os.environ.get(TORCHRUN_ROLE, "")
        if launcher and launcher != TORCHRUN_DEFAULT:
            session.tell_part(launcher, source="torchrun")
    if name and kind in ("rank", "process"):
        session.become_member(name, source="environment")
    if _told[0] and kind != "child":
        session.become_member(*_told, source="program")


def forget() -> None:
    """This process was forked: what was told was of another one."""
    global _told
    _told = ("", -1)
    session.forget_part()
