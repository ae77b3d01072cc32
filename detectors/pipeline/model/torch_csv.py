"""Orders as `torch.distributed.pipelining` reads and writes them: CSV, a row a rank, a cell an action.

A cell is `3F0` (stage 3, forward, microbatch 0), `3B0`, `3I0`, `3W0`, an overlapped pair `(0F7;7B3)OVERLAP_F_B`, or
blank. Communication and sharding actions (`SEND_F`, `UNSHARD` ...) of a lowered order are left out: they follow from
the rest.
"""

from __future__ import annotations

import csv
import io
import re

from scalana.detectors.pipeline.model.actions import Action, Kind, OrderError, Program

_ACTION = re.compile(r"(\d+)(F|B|I|W)(\d+)")
_PAIR = re.compile(r"\(([^;()]*);([^;()]*)\)OVERLAP_F_B")
_OTHER = re.compile(r"\d+(SEND_[FB]|RECV_[FB]|UNSHARD|RESHARD|REDUCE_GRAD)(\d+)?")


def parse_torch_csv(text: str, name: str = "order") -> Program:
    """The program in a CSV of torch; ``name`` is the file for messages.

    Raises:
        OrderError: for a cell that is no action, and for an order that cannot run.
    """
    orders: list[list[Action]] = []
    for number, row in enumerate(csv.reader(io.StringIO(text)), 1):
        order: list[Action] = []
        for cell in row:
            order += _cell(cell.strip(), f"{name}, line {number}")
        orders.append(order)
    while orders and not orders[-1]:
        orders.pop()
    try:
        return Program.of(orders)
    except OrderError as error:
        raise OrderError(f"{name}: {error}") from error


def _cell(text: str, place: str) -> list[Action]:
    if not text or text == "None" or _OTHER.fullmatch(text):
        return []
    if pair := _PAIR.fullmatch(text):
        one, two = (_single(part.strip(), place) for part in pair.groups())
        return [Action(one.kind, one.stage, one.microbatch, joined=True), two]
    return [_single(text, place)]


def _single(text: str, place: str) -> Action:
    found = _ACTION.fullmatch(text)
    if not found:
        raise OrderError(f"{place}: {text!r} is not an action; expected one such as 3F0, 3B0, 3I0 or 3W0")
    return Action(Kind[found[2]], int(found[1]), int(found[3]))


def write_torch_csv(program: Program) -> str:
    """The CSV of a program, in torch's format `compute_only`."""
    lines = []
    for order in program.orders():
        cells: list[str] = []
        for action in order:
            if cells and cells[-1].endswith(";"):
                cells[-1] += f"{action})OVERLAP_F_B"
            else:
                cells.append(f"({action};" if action.joined else str(action))
        lines.append(",".join(cells) + "\n")
    return "".join(lines)
