"""What plans bring on the layer profiles of AdaPtis (OctoPipe), how long a search takes, and beside their own tuner.

Run: python tests/benchmarks/pipeline_plans.py families SIMULATOR [--budget S]
     python tests/benchmarks/pipeline_plans.py profiles PROFILES [--budget S]
     python tests/benchmarks/pipeline_plans.py tuner SIMULATOR [--budget S] [--full]
     python tests/benchmarks/pipeline_plans.py zero-bubble ZERO_BUBBLE
     python tests/benchmarks/pipeline_plans.py growth

`SIMULATOR` is a folder with the sources of github.com/guojihu-hana/PipelineSimulator, whose `data/profiled_data.py` has
the ratios of the families; `PROFILES` one with the profiles of github.com/guojihu-hana/SimPipe; `ZERO_BUBBLE` one with
github.com/sail-sg/zero-bubble-pipeline-parallelism. Nothing of them is part of this repository.

A family's baseline is interleaved 1F1B with two stages a rank and the same number of blocks in each, as the authors
have it: 4 microbatches a rank, a message takes 5 % and the host 2 % of a mean forward. Plans take no more memory than
it does (activations, in layers times microbatches). The budget is CPU time of this process, which has one thread.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from scalana.detectors.pipeline.model.actions import Kind  # noqa: E402
from scalana.detectors.pipeline.model.engines import ENGINES  # noqa: E402
from scalana.detectors.pipeline.model.partition import even_cut  # noqa: E402
from scalana.detectors.pipeline.plans.assignment import Stages, stage_costs_of  # noqa: E402
from scalana.detectors.pipeline.plans.bounds import lower_bound  # noqa: E402
from scalana.detectors.pipeline.plans.list_schedule import Policy, list_schedule  # noqa: E402
from scalana.detectors.pipeline.plans.means import fixed_order, uniform_plan  # noqa: E402
from scalana.detectors.pipeline.plans.profile import LayerProfile, ProfileError  # noqa: E402
from scalana.detectors.pipeline.plans.profile_file import read_document  # noqa: E402
from scalana.detectors.pipeline.plans.proposal import without_wall  # noqa: E402
from scalana.detectors.pipeline.plans.search import BASIC, Effort, search  # noqa: E402

IDEAL = ENGINES["ideal"]
FAMILIES = (
    ("GEMMA", 1536, 4096, 256000, 32, 4),
    ("GEMMA", 1536, 4096, 512000, 64, 8),
    ("GEMMA", 1536, 8192, 512000, 64, 8),
    ("GEMMA", 1536, 4096, 1024000, 128, 16),
    ("DEEPSEEK", 2048, 4096, 131072, 16, 4),
    ("DEEPSEEK", 2048, 4096, 262144, 32, 8),
    ("DEEPSEEK", 2048, 4096, 524288, 64, 8),
    ("NEMOTRONH", 1024, 4096, 131072, 28, 4),
    ("NEMOTRONH", 1024, 4096, 262144, 56, 8),
    ("NEMOTRONH", 1024, 4096, 524288, 112, 16),
    ("NEMOTRONH", 1024, 8192, 524288, 112, 16),
)
"""Family, hidden size, sequence length, vocabulary, blocks, ranks."""


def profiled(simulator: Path) -> Any:
    """The authors' table of measured numbers."""
    spec = importlib.util.spec_from_file_location("profiled_data", simulator / "data" / "profiled_data.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def family(table: Any, name: str, hidden: int, sequence: int, vocabulary: int, blocks: int, ranks: int) -> LayerProfile:
    """Layers of a family, from the ratios of its two kinds of blocks and its head: F, I and W of each."""
    ratios = np.array(table[name][hidden][sequence][vocabulary]).reshape(3, 3)
    plain, other, head = ratios
    if name == "GEMMA":
        rows = [plain] * blocks
    elif name == "DEEPSEEK":  # the first blocks are dense, the others mixtures of experts
        dense = max(blocks // ranks - 1, 1)
        rows = [plain] * dense + [other] * (blocks - dense)
    else:  # a block of attention after each two others
        rows = [plain if (i + 1) % 3 == 0 else other for i in range(blocks)]
    layers = np.array([*rows, head]).T
    seconds = np.stack([layers[0], layers[1] + layers[2], layers[1], layers[2]]) * 1e-3
    return priced(
        LayerProfile(
            names=(*(f"block{i}" for i in range(blocks)), "head"),
            seconds=seconds,
            activation=np.ones(blocks + 1),
            output=np.zeros(blocks + 1),
            static=np.zeros(blocks + 1),
            ranks=ranks,
            microbatches=4 * ranks,
            latency_s=np.zeros((ranks, ranks)),
            outside=(blocks,),
        )
    )


def priced(profile: LayerProfile) -> LayerProfile:
    """With messages and a host that take a little."""
    forward = float(profile.seconds[Kind.F].mean())
    latency = np.full((profile.ranks, profile.ranks), 0.05 * forward)
    return replace(profile, latency_s=latency, host_s=0.02 * forward)


def row(name: str, profile: LayerProfile, budget_s: float) -> tuple[float, float, float]:
    """Print what a plan brings for a profile; the speed-ups at the same memory, at any, and with the head split."""
    base = uniform_plan(profile)
    assert base is not None
    effort = Effort(actions=1e9, budget_s=budget_s, clock=time.process_time)
    begin = time.process_time()
    same, _ = search(profile.within(base.peak), IDEAL, effort)
    took = time.process_time() - begin
    free, _ = search(profile, IDEAL, replace(effort, budget_s=budget_s / 2), (same.stages,))
    best = min(same.step_s, free.step_s)
    wall = without_wall(profile.within(base.peak), IDEAL, effort)
    parted = min(wall.plan.step_s, same.step_s) if wall is not None else same.step_s
    bound = lower_bound(profile)
    gains = base.step_s / same.step_s, base.step_s / best, base.step_s / parted
    print(
        f"{name:34} {profile.ranks:3} {profile.layers:4} {base.bubble:7.1%} {gains[0]:7.3f} {gains[1]:7.3f}"
        f" {gains[2]:7.3f} {base.step_s / bound.step_s:7.3f} {same.step_s / bound.step_s - 1:7.1%} {took:6.1f}",
        flush=True,
    )
    return gains


def table(rows: Iterator[tuple[str, LayerProfile]], budget_s: float) -> None:
    """A table of speed-ups and their means."""
    heads = "".join(f" {name:>7}" for name in ("bubble", "same", "any", "split", "bound", "above"))
    print(f"{'':34} {'P':>3} {'L':>4}{heads} {'s':>6}")
    gains = np.array([row(name, profile, budget_s) for name, profile in rows])
    for what, of in (("mean", gains.mean(axis=0)), ("max", gains.max(axis=0))):
        print(f"{what:34} {'':16} {of[0]:7.3f} {of[1]:7.3f} {of[2]:7.3f}")


def families(options: argparse.Namespace) -> None:
    """The families of the paper, by the authors' ratios."""
    data = profiled(options.folder).profiled_data
    table(((f"{one[0]} {one[2]} {one[3]}", family(data, *one)) for one in FAMILIES), options.budget)


def profiles(options: argparse.Namespace) -> None:
    """Measured milliseconds of whole models."""
    files = sorted(options.folder.glob("*.json"))
    table(
        ((file.stem, priced(read_document(json.loads(file.read_text()), file.name, 8, 32))) for file in files),
        options.budget,
    )


def tuner(options: argparse.Namespace) -> None:
    """The authors' own tuner on its own data, and ours on the same: CPU time of one thread each."""
    theirs = their_tuner(options.folder, options.full)
    theirs_s = theirs["seconds"]
    profile = read_document(theirs, "stage_time", theirs["ranks"], theirs["microbatches"])
    print(f"{profile.layers} layers, {profile.ranks} ranks, {profile.microbatches} microbatches, whole backwards")
    print(f"their tuner: {theirs['ticks']} ticks in {theirs_s:.1f} s, memory {their_peak(theirs)} layers")
    bound = lower_bound(profile).step_s * 1000
    print(f"lower bound: {bound:.0f} ticks")
    base = fixed_order(profile, "1F1B", 1, "ideal", even_cut(profile.layers, profile.ranks))
    assert base is not None
    print(f"uniform 1F1B: {base.step_s * 1000:.0f} ticks, memory {base.peak:.0f} layers")
    limits = (None, float(their_peak(theirs)), base.peak)
    for text, within in zip(("any memory", "their memory", "1F1B's memory"), limits, strict=True):
        begin = time.process_time()
        budget_s = theirs_s / 50 if options.budget is None else options.budget
        effort = Effort(actions=1e9, budget_s=budget_s, clock=time.process_time)
        try:
            plan, _ = search(profile.within(within), IDEAL, effort, splits=False)
        except ProfileError as error:
            print(f"ours, {text}: {error}")
            continue
        took = time.process_time() - begin
        print(
            f"ours, {text}: {plan.step_s * 1000:.0f} ticks in {took:.2f} s"
            f" (1/{theirs_s / took:.0f} of the time), memory {plan.peak:.0f} layers",
            flush=True,
        )


RUNNER = """
import json, os, runpy, sys, time, types
import cProfile, pstats
from unittest.mock import MagicMock
for name in ("PIL", "tkinter", "matplotlib", "matplotlib.pyplot", "matplotlib.patches", "matplotlib.backends",
             "matplotlib.backends.backend_pdf"):  # what draws
    sys.modules[name] = MagicMock()
cProfile.Profile = type("Off", (), {"enable": lambda self: None, "disable": lambda self: None})
pstats.Stats = lambda profile: types.SimpleNamespace(
    sort_stats=lambda *a: types.SimpleNamespace(print_stats=lambda *a: None))
from Executor import Executor
inner = Executor.iterative_tuning
def tuned(self, **options):
    begin = time.process_time()
    inner(self, **(options | json.loads(sys.argv[1])))
    found = {"seconds": time.process_time() - begin, "ticks": self.get_time(), "microbatches": self.tc.micro_batch_num}
    found["starts"] = self.pipelines[0].results
    found |= {"f": list(self.tc.layer_f_times), "b": list(self.tc.layer_b_times), "ranks": self.device_num}
    print("RESULT " + json.dumps(found), flush=True)
    os._exit(0)
Executor.iterative_tuning = tuned
runpy.run_path("__main__.py", run_name="__main__")
"""
"""Runs the authors' main program up to the end of its tuning, without its profiler."""


def their_peak(theirs: dict[str, Any]) -> int:
    """The most activations that a device of their plan holds, in layers times microbatches."""
    held: dict[str, list[tuple[float, int]]] = {}
    for key, begin in theirs["starts"].items():
        parts = key.split("_")
        if len(parts) == 4 and parts[0] in "fb":
            change = (begin, 1) if parts[0] == "f" else (begin + theirs["b"][int(parts[2])], -1)
            held.setdefault(parts[3], []).append(change)
    return max(int(np.cumsum([change for _, change in sorted(rows)]).max()) for rows in held.values())


QUICK = {"beam_width": 512, "top_n": 200, "local_search_rounds": 1}
"""Knobs for less than their default of ten minutes."""


def their_tuner(folder: Path, full: bool) -> dict[str, Any]:
    """What the authors' tuner makes of its own data: seconds, ticks, and the costs that it was given."""
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "simulator"
        shutil.copytree(folder, copy, ignore=shutil.ignore_patterns(".git"))  # it writes beside its sources
        command = [sys.executable, "-c", RUNNER, json.dumps({} if full else QUICK)]
        done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if not lines:
        raise SystemExit(f"their tuner gave no result:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(lines[0].removeprefix("RESULT "))
    return found


def zero_bubble(options: argparse.Namespace) -> None:
    """List scheduling beside the heuristic of sail-sg's zero-bubble scheduler, at the memory of 1F1B and at twice
    that; ours is the best of the policies with which a search begins, theirs the best of its eight variants."""
    from unittest.mock import MagicMock

    folder = options.folder / "megatron/core/pipeline_parallel/zerobubble/scheduler"
    package = "megatron.core.pipeline_parallel.zerobubble.scheduler"
    for name in ("pulp", "torch"):
        sys.modules.setdefault(name, MagicMock())
    modules: dict[str, Any] = {}
    for name in ("graph", "zb"):
        spec = importlib.util.spec_from_file_location(f"{package}.{name}", folder / f"{name}.py")
        assert spec is not None and spec.loader is not None
        modules[name] = sys.modules[f"{package}.{name}"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(modules[name])
    print(f"{'':28} {'ours':>8} {'ms':>8} {'one ms':>8} {'theirs':>8} {'ms':>9} {'ratio':>6}")
    for ranks, microbatches, last, memory in (
        (4, 8, 1.0, 1), (8, 64, 1.0, 1), (8, 64, 1.0, 2), (8, 64, 2.0, 1), (16, 128, 1.0, 2), (64, 512, 1.0, 1),
        (64, 512, 1.0, 2),
    ):  # fmt: skip
        cost = [1.0] * (ranks - 1) + [last]
        profile = homogeneous(ranks, ranks, microbatches).within(float(ranks * memory))
        profile = replace(profile, seconds=np.array([[1.0], [2.0], [1.0], [1.0]]) * cost)
        costs = stage_costs_of(profile, Stages.of_layers(np.arange(ranks)), IDEAL)
        list_schedule(costs, microbatches, profile.limits, Policy())
        begin = time.process_time()
        found = [list_schedule(costs, microbatches, profile.limits, policy) for policy in BASIC]
        ours_s = time.process_time() - begin
        begin = time.process_time()
        config = modules["graph"].GraphConfig(
            mem_f=[1.0] * ranks, mem_b=[0.0] * ranks, mem_w=[-1.0] * ranks, max_mem=[float(ranks * memory)] * ranks,
            cost_f=cost, cost_b=cost, cost_w=cost, n_stages=ranks, n_micro=microbatches,
        )  # fmt: skip
        graph = modules["zb"].Graph.build_graph(ranks, microbatches, config)
        _, _, ends = modules["zb"].initial_solution(graph, False)
        theirs_s = time.process_time() - begin
        best = min(one.makespan_s for one in found)
        text = f"P{ranks} M{microbatches} last {last:g} memory {memory}P"
        print(
            f"{text:28} {best:8.0f} {ours_s * 1e3:8.1f} {ours_s * 1e3 / len(found):8.1f} {max(ends):8.0f}"
            f" {theirs_s * 1e3:9.1f} {theirs_s / ours_s:6.0f}",
            flush=True,
        )


def growth(options: argparse.Namespace) -> None:
    """CPU time of list scheduling and of a search, by layers, ranks and microbatches."""
    del options
    print(f"{'':24} {'actions':>9} {'list scheduling ms':>19}")
    for ranks, layers, microbatches in ((8, 8, 64), (8, 32, 64), (16, 64, 128), (64, 64, 512), (64, 128, 256)):
        profile = homogeneous(layers, ranks, microbatches)
        stages = Stages.of_layers(np.arange(layers) % ranks)
        costs = stage_costs_of(profile, stages, IDEAL)
        taken = []
        for _ in range(5):
            begin = time.process_time()
            found = list_schedule(costs, microbatches, profile.limits, Policy())
            taken.append(time.process_time() - begin)
        print(f"P{ranks} S{layers} M{microbatches:<13} {len(found.kind):9} {min(taken) * 1e3:19.2f}")
    print(f"{'search, default effort':24} {'seconds':>9} {'above the bound':>19}")
    for ranks, layers, microbatches in ((4, 32, 16), (8, 64, 32), (16, 100, 64), (64, 100, 128), (64, 100, 256)):
        profile = homogeneous(layers, ranks, microbatches, spread=0.5)
        begin = time.process_time()
        plan, _ = search(profile, IDEAL, Effort(budget_s=60, clock=time.process_time))
        took = time.process_time() - begin
        print(
            f"P{ranks} L{layers} M{microbatches:<13} {took:9.1f} {plan.step_s / lower_bound(profile).step_s - 1:19.1%}"
        )


def homogeneous(layers: int, ranks: int, microbatches: int, spread: float = 0.0) -> LayerProfile:
    """Layers that cost about the same."""
    draw = np.random.default_rng(0)
    cost = 1 + spread * draw.uniform(-1, 1, layers)
    return LayerProfile(
        names=tuple(map(str, range(layers))),
        seconds=np.array([[1.0], [2.0], [1.0], [1.0]]) * cost * 1e-3,
        activation=np.ones(layers),
        output=np.zeros(layers),
        static=np.zeros(layers),
        ranks=ranks,
        microbatches=microbatches,
        latency_s=np.zeros((ranks, ranks)),
    )


def main() -> None:
    """One of the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = {
        "families": families,
        "profiles": profiles,
        "tuner": tuner,
        "zero-bubble": zero_bubble,
        "growth": growth,
    }
    parser.add_argument("what", choices=kinds)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--budget", type=float)
    parser.add_argument("--full", action="store_true", help="the tuner with all of its default knobs: ten minutes")
    options = parser.parse_args()
    if options.budget is None and options.what != "tuner":
        options.budget = 10.0
    kinds[options.what](options)


if __name__ == "__main__":
    main()
