"""The text of a drawn program. It reads its own clock around its fault, and prints what that took.

Lines that a report may name end in ``# <- fault``: where a rank does more than others, or a line that nothing but this
place leads to.
"""

from __future__ import annotations

from typing import NamedTuple

from .draw import WHAT, Fault, Phase, Program

MARK = "# <- fault"

_MPI = """\
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
"""
_TORCH = """\
import torch
import torch.distributed as dist

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
values = torch.ones(256)
"""
_HELPERS = """\
def compute(seconds):
    total = 0.0
    for number in range(1, int(seconds * 25e6)):{compute}
        total += 1.0 / number{compute}
    return total


def sleep(seconds):
    time.sleep(seconds){sleep}


def jitter(step):
    return 1.0 + 0.02 * (((step * 7 + rank * 3) % 5) - 2)


"""
_EXCHANGE = {
    "mpi": {
        "barrier": ("comm.Barrier()",),
        "allreduce": ("comm.allreduce(step)",),
        "broadcast": ("comm.bcast(step, root=turn % size)",),
        "gather": ("comm.gather(step, root=turn % size)",),
        "ring": ("comm.sendrecv(step, (rank + 1) % size, source=(rank - 1) % size)",),
        "pairs": ("if rank ^ 1 < size:", "    comm.sendrecv(step, rank ^ 1, source=rank ^ 1)"),
    },
    "torch": {
        "barrier": ("dist.barrier()",),
        "allreduce": ("dist.all_reduce(values)", "values.fill_(1.0)"),
        "broadcast": ("dist.broadcast(values, src=turn % size)",),
        "gather": ("dist.all_gather([torch.empty(256) for _ in range(size)], values)",),
        "ring": (
            "sent = dist.isend(values, (rank + 1) % size) if size > 1 else None",
            "if sent is not None:",
            "    dist.recv(torch.empty(256), (rank - 1) % size)",
            "    sent.wait()",
        ),
        "pairs": (
            "if rank ^ 1 < size:",
            "    sent = dist.isend(values, rank ^ 1)",
            "    dist.recv(torch.empty(256), rank ^ 1)",
            "    sent.wait()",
        ),
    },
}
_WHEN = {
    "always": "1.0",
    "every fifth step": "(4.0 if step % 5 == 2 else 0.0)",
    "once": "({once:.1f} if step == {half} and turn == 0 else 0.0)",
    "growing": "(2.0 * step / STEPS)",
}


def source_of(program: Program) -> str:
    """The whole text."""
    text = '"""A random program."""\n\nimport json\nimport threading\nimport time\n\n'
    text += _MPI if program.runtime == "mpi" else _TORCH
    fault, others = program.fault, _innocent(program)
    works = {call.what for call in others}
    marks = {what: f"  {MARK}" if fault and what == fault.what and what not in works else "" for what in WHAT}
    text += f"STEPS = {program.steps}\nspent = cpu = 0.0\n\n\n{_HELPERS.format(**marks)}"
    text += _fault_functions(program, fault) if fault else ""
    for call in sorted({*others, *_guilty(program)}):
        branch = (
            fault if fault and fault.place == "deep branch" and call in others and call.phase == fault.phase else None
        )
        text += _chain(call, branch, marked=call not in others) if call.depth else ""
    for number, phase in enumerate(program.phases):
        text += _phase(program, number, phase, fault if fault and fault.phase == number else None)
    return text + _main(program)


class _Call(NamedTuple):
    """What a phase calls to work."""

    what: str
    phase: int
    """Number of the phase, -1 where phases share it."""
    depth: int
    """Helpers that lead to the work."""

    @property
    def name(self) -> str:
        """Of the first helper, or of what does the work."""
        owner = "common" if self.phase < 0 else f"part{self.phase}"
        return f"{owner}_{self.what}_0" if self.depth else self.what

    @property
    def arguments(self) -> str:
        """Behind the seconds."""
        return ", step, turn" if self.depth else ""


def _call(program: Program, number: int, what: str) -> _Call:
    phase = program.phases[number]
    if phase.shared:
        return _Call(what, -1, max(other.depth for other in program.phases if other.shared))
    return _Call(what, number, phase.depth)


def _innocent(program: Program) -> set[_Call]:
    """The calls of all phases, but for one of which the fault has ranks do more."""
    fault = program.fault
    longer = fault.phase if fault and fault.place == "longer call" else -1
    return {_call(program, number, phase.work) for number, phase in enumerate(program.phases) if number != longer}


def _guilty(program: Program) -> set[_Call]:
    fault = program.fault
    return (
        {_call(program, fault.phase, fault.what)} if fault and fault.place in ("extra call", "longer call") else set()
    )


def _fault_functions(program: Program, fault: Fault) -> str:
    half = program.steps // 2
    turns = program.phases[fault.phase].turns * program.steps
    amount = _WHEN[fault.when].format(once=0.6 * turns, half=half)
    text = f"def more(step, turn):\n    return {fault.extra_s:.5f} * {amount} if rank in {fault.ranks} else 0.0\n\n\n"
    if fault.place == "own function":
        text += f"def repair(seconds):\n    for _ in range(2):  {MARK}\n        {fault.what}(seconds / 2)  {MARK}\n\n\n"
    if fault.place == "thread":
        timed = _timed(f"{fault.what}(seconds)", "seconds > 0.0")
        text += f"def feed(seconds):\n    global spent, cpu\n    {fault.what}(0.001)\n"
        text += "".join(f"    {line}\n" for line in timed) + "\n\n"
    return text


def _chain(call: _Call, branch: Fault | None, marked: bool) -> str:
    """The helpers that a call goes through, each of which calls the next one. The last one does the work, and has the
    branch of a fault; ``marked``: only the fault leads there."""
    text, mark, stem = "", f"  {MARK}" if marked else "", call.name.removesuffix("0")
    for level in reversed(range(call.depth)):
        last = level == call.depth - 1
        body = [f"{call.what}(seconds){mark}" if last else f"{stem}{level + 1}(seconds, step, turn){mark}"]
        if branch and last:
            inside = _timed(f"{branch.what}(more(step, turn))", f"rank in {branch.ranks}")
            body = ["global spent, cpu", *inside, *body]
        text += f"def {stem}{level}(seconds, step, turn):\n" + "".join(f"    {line}\n" for line in body) + "\n\n"
    return text


def _phase(program: Program, number: int, phase: Phase, fault: Fault | None) -> str:
    place = fault.place if fault else ""
    usual = _call(program, number, phase.work)
    amount = f"{phase.work_s:.5f} * jitter(step)"
    lines = [f"{usual.name}({amount}{usual.arguments})"]
    if fault and place in ("longer call", "extra call"):
        guilty = _call(program, number, fault.what)
        if place == "longer call":
            lines = list(_timed(f"{guilty.name}({amount} + more(step, turn){guilty.arguments})", ""))
        else:
            lines += _timed(f"{guilty.name}(more(step, turn){guilty.arguments})", "more(step, turn) > 0.0")
    elif place == "own function":
        lines += _timed("repair(more(step, turn))", "more(step, turn) > 0.0")
    elif place == "thread":
        lines += [
            "feeder = threading.Thread(target=feed, args=(more(step, turn),))",
            "feeder.start()",
            "feeder.join()",
        ]
    lines += _EXCHANGE[program.runtime][phase.pattern]
    text = f"def phase{number}(step):\n    global spent, cpu\n    for turn in range({phase.turns}):\n"
    return text + "".join(f"        {line}\n" for line in lines) + "\n\n"


def _timed(call: str, condition: str) -> tuple[str, ...]:
    """A call with the clock read around it, under a condition if there is one."""
    lines = (
        "began, ran = time.perf_counter(), time.thread_time()",
        f"{call}  {MARK}",
        "spent += time.perf_counter() - began",
        "cpu += time.thread_time() - ran",
    )
    return (f"if {condition}:", *(f"    {line}" for line in lines)) if condition else lines


def _main(program: Program) -> str:
    text = ""
    if program.ticker:
        text += "def tick():\n    while True:\n        time.sleep(0.02)\n        sum(range(2000))\n\n\n"
    text += "def main():\n"
    text += "    threading.Thread(target=tick, daemon=True).start()\n" if program.ticker else ""
    text += "    for step in range(STEPS):\n"
    text += "".join(f"        phase{number}(step)\n" for number in range(len(program.phases)))
    text += (
        "    print('[truth] ' + json.dumps({'rank': rank, 'spent': spent, 'cpu': cpu}) + chr(10), end='', flush=True)\n"
    )
    text += "    dist.destroy_process_group()\n" if program.runtime == "torch" else ""
    return text + "\n\nmain()\n"
