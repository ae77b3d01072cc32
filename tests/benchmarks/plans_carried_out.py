"""Plans carried out: a recorded run, the best plan of its engine, and that one run by the engine with emulated layers.

Run: python tests/benchmarks/plans_carried_out.py torch|megatron|deepspeed|torchtitan ... [--budget S]

Four ranks on this machine, a minute or two an engine. `build/pipeline` has the engines (`make pipeline`). Runs of
Megatron and DeepSpeed are of the test programs, whose second model has a head that costs as much as the four layers of
a stage; that of torch has one of three layers, at the end of 16. torchtitan has a file of costs instead of a run: 16
layers, an embedding and a head of three layers; it is compared with interleaved 1F1B over even stages, carried out the
same way.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from scalana import plans  # noqa: E402
from scalana.detectors.pipeline.plans.profile import LayerProfile  # noqa: E402
from scalana.detectors.pipeline.plans.profile_file import read_document  # noqa: E402
from scalana.detectors.pipeline.plans.proposal import Asked, propose  # noqa: E402
from scalana.detectors.pipeline.plans.search import Effort  # noqa: E402
from scalana.verify.run import How, check_plan, present  # noqa: E402

RANKS = 4
PROGRAMS = {
    "torch": ("tests/tools/pipeline_job.py --schedule 1F1B --layers 4,4,4,4 --head 3", 1),
    "megatron": ("tests/runtime/programs/megatron_pipeline.py 1 20", 2),
    "deepspeed": ("tests/runtime/programs/deepspeed_pipeline.py 20", 2),
}
"""What is recorded, and which of its pipelines is planned anew."""


def recorded(engine: str, folder: Path) -> LayerProfile:
    """Layer costs of a run of an engine."""
    program, pipeline = PROGRAMS[engine]
    run = folder / f"run-{engine}"
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS)]
    command = [sys.executable, "-m", "scalana", "run", "--no-report", "-o", str(run), "--", *launcher, *program.split()]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return plans.read_profile(str(run), pipeline=pipeline)


def made_up() -> LayerProfile:
    """Layer costs of no run: a model as torchtitan names its layers."""
    rows = [("tok_embeddings", 1.0, True), *((f"layers.{i}", 5.0, False) for i in range(16)), ("output", 15.0, True)]
    layers = [{"name": name, "forward_s": ms / 1e3, "backward_s": ms / 500, "outside": end} for name, ms, end in rows]
    return read_document({"schema": "scalana.layers/1", "ranks": RANKS, "microbatches": 8, "layers": layers}, "costs")


def row(engine: str, folder: Path, budget_s: float) -> None:
    """Record, plan, carry out, and print what came of it."""
    found = ROOT / "build" / "pipeline" / engine
    if found.is_dir():
        os.environ |= {"PYTHONPATH": str(found), "DS_ACCELERATOR": "cpu"}
    profile = recorded(engine, folder) if engine in PROGRAMS else made_up()
    proposal = propose(profile, Asked(front=False, wall=False), Effort(budget_s=budget_s))
    plans.write_proposal(proposal, str(folder / engine))
    written = plans.read_written(str(folder / engine), engine)
    checked = check_plan(written, How())
    if profile.now is not None:
        before, now_s, planned_s = profile.now.schedule, profile.now.step_s, profile.now.step_s
    else:
        other = present(written)
        assert other is not None
        base, schedule = other
        took = check_plan(base, How(), schedule)
        before, now_s, planned_s = base.plan.text, took.measured_s, took.predicted_s
    plan = f"{written.plan.stages.count} stages, {written.plan.text}"
    print(
        f"| {engine} | {before} {now_s * 1e3:.0f} ms | {plan} | {checked.predicted_s * 1e3:.0f} ms"
        f" | {checked.measured_s * 1e3:.0f} ms | {checked.error:+.1%} | {planned_s / checked.predicted_s:.2f} x"
        f" | {now_s / checked.measured_s:.2f} x |",
        flush=True,
    )


def main() -> None:
    """A row an engine."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engines", nargs="+", choices=[*PROGRAMS, "torchtitan"])
    parser.add_argument("--budget", type=float, default=4.0, help="seconds of a search")
    options = parser.parse_args()
    print("| engine | before | plan | predicted | measured | error | gain predicted | gain measured |")
    with tempfile.TemporaryDirectory(prefix="scalana-plans-") as name:
        for engine in options.engines:
            row(engine, Path(name), options.budget)


if __name__ == "__main__":
    main()
