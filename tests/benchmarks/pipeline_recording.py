"""What the recording of ``torch.distributed.pipelining`` adds to a call, in ns: best of several rounds.

Run: python tests/benchmarks/pipeline_recording.py

The calls are those that schedules make, of a stage whose methods do nothing, with and without the wrappers, which take
turns. An action is one forward or backward; a message is its operations, their post and the wait for them.
"""

from __future__ import annotations

import sys
import tempfile
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from scalana.runtime import _core, session  # noqa: E402
from scalana.runtime.pipeline import torch_pipelining  # noqa: E402
from scalana.runtime.pipeline.runs import Plan, runs  # noqa: E402

ROUNDS = 200
TIMES = 1_000


class Op:
    """Stands for a ``P2POp``."""


def library() -> types.SimpleNamespace:
    """What stands for torch's modules, new each time: wrapped or not, they are of the same make."""

    class Stage:
        stage_index, has_backward, num_stages, group, group_rank = 1, True, 4, None, 0

        def forward_one_chunk(self, fwd_chunk_id: int, args: Any, kwargs: Any = None) -> None:
            pass

        def backward_one_chunk(self, bwd_chunk_id: int, loss: Any = None, full_backward: bool = True) -> None:
            pass

        def backward_weight_one_chunk(self, bwd_chunk_id: int) -> None:
            pass

        def perform_reduce_grad(self, factor: int) -> None:
            pass

        def get_fwd_recv_ops(self, chunk_id: int) -> list[Op]:
            return [Op()]

        get_bwd_recv_ops = get_fwd_send_ops = get_bwd_send_ops = get_fwd_recv_ops

    def batch(ops: list[Op], desc: str | None = None) -> list[Op]:
        return list(ops)

    def wait(works: list[Op]) -> None:
        pass

    return types.SimpleNamespace(
        _PipelineStageBase=Stage, _batch_p2p=batch, _wait_batch_p2p=wait, __name__="torch.distributed.pipelining"
    )


def forwards(module: Any) -> Callable[[int], None]:
    stage = module._PipelineStageBase()

    def call(times: int) -> None:
        for number in range(times):
            stage.forward_one_chunk(number & 63, (), {})

    return call


def backwards(module: Any) -> Callable[[int], None]:
    stage = module._PipelineStageBase()

    def call(times: int) -> None:
        for number in range(times):
            stage.backward_one_chunk(number & 63, loss=None, full_backward=False)

    return call


def messages(module: Any) -> Callable[[int], None]:
    stage = module._PipelineStageBase()

    def call(times: int) -> None:
        for number in range(times):
            module._wait_batch_p2p(module._batch_p2p(stage.get_fwd_recv_ops(number & 63)))

    return call


WAYS = {"forward": forwards, "backward": backwards, "message: ops, post and wait": messages}


def measure() -> dict[str, float]:
    """ns that the recording adds to each."""
    plain, wrapped = library(), library()
    torch_pipelining.patch_stage(wrapped)
    torch_pipelining.patch_schedules(wrapped)
    schedule = Op()
    run = None
    if session.core is not None:  # one of the runs in which no layers are timed
        plan = Plan((), {1: 0}, [0, 1, 2, 3])
        runs.learn(schedule, plan)
        run = runs.enter(schedule, plan, True)
        torch_pipelining._quick.begin(run)
    calls = {name: (make(plain), make(wrapped)) for name, make in WAYS.items()}
    best = {name: [float("inf")] * 2 for name in WAYS}
    for _ in range(ROUNDS):
        for name, pair in calls.items():
            for side, call in enumerate(pair):
                start = time.perf_counter_ns()
                call(TIMES)
                best[name][side] = min(best[name][side], (time.perf_counter_ns() - start) / TIMES)
    if run is not None:
        torch_pipelining._leave(run)
    return {name: recorded - original for name, (original, recorded) in best.items()}


def main() -> None:
    off = measure()
    with tempfile.TemporaryDirectory() as folder:
        _core.start(f"{folder}/r.rec", 0, 1 << 36)
        session.core = _core
        on = measure()
        session.core = None
        _core.stop(0)
    print("| added to a | recorded, ns | not recorded, ns |\n|---|---:|---:|")
    for name in WAYS:
        print(f"| {name} | {on[name]:.0f} | {off[name]:.0f} |")


if __name__ == "__main__":
    main()
