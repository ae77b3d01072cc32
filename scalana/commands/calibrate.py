"""``scalana calibrate``: what this machine can do, for reports to compare modules with."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from scalana import console
from scalana.commands.arguments import whole
from scalana.errors import CommandError, RunDataError

if TYPE_CHECKING:
    from scalana.calibration.ceilings import Setting
    from scalana.calibration.measure import Measured

TYPES = ("float32", "bfloat16")


class CalibrateCommand:
    """Measure the peak rates of this machine (some seconds), and save them."""

    example = """\
examples:
  scalana calibrate scalana-20250131-142233      uses this machine as the ranks of that run did
  scalana calibrate --processes 8 --threads 4    8 ranks per host with 4 threads each
  scalana calibrate --device cuda --types bfloat16,float16

Later reports of runs on such a machine compare each module of a model with it. Calibrate on an idle machine.
"""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        parser.add_argument("folder", metavar="DIR", nargs="?", help="run folder: measure for the ranks of this run")
        parser.add_argument("--processes", metavar="N", type=whole(1), help="ranks per host (default: 1)")
        parser.add_argument(
            "--threads", metavar="N", type=whole(1), help="threads per rank (default: the number of cores)"
        )
        parser.add_argument(
            "--types", metavar="TYPE,...", help=f"element types (default: {','.join(TYPES)}, and those of the run)"
        )
        parser.add_argument(
            "--device", choices=("cpu", "cuda"), help="device that computes (default: cpu, or that of the run)"
        )

    def run(self, args: argparse.Namespace) -> int:
        """Measure, keep and print."""
        from scalana.calibration import ceilings
        from scalana.calibration.measure import measure

        types = args.types.split(",") if args.types else list(TYPES)
        settings: list[Setting] = []
        if args.folder:
            settings, used = _of_run(args.folder)
            types += [] if args.types else [dtype for dtype in used if dtype not in types]
        targets: list[Setting | None] = [*settings] or [None]
        for setting in targets:
            cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
            processes = args.processes or (setting.processes if setting is not None else 1)
            threads = args.threads or (setting.threads if setting is not None else max(cores // processes, 1))
            device = args.device or ("cuda" if setting is not None and setting.device else "cpu")
            console.complain(f"measuring {processes} x {threads} threads")
            measured = measure(processes, threads, types, device)
            if setting is not None and not (args.processes or args.threads) and measured.setting != setting:
                raise CommandError(f"the run used {setting}, but this machine is {measured.setting}: calibrate there")
            file = ceilings.keep(measured.setting, measured.ceilings, os.environ)
            console.write("\n".join([*_told(measured, file), ""]), sys.stdout)
            _compile(measured)
        return 0


def _of_run(folder: str) -> tuple[list[Setting], list[str]]:
    """The settings of the ranks of a run, each once, and the types in which their modules make products."""
    from scalana.calibration.ceilings import settings_of
    from scalana.graphs.ppg import build_ppg
    from scalana.graphs.readers.folder.run_folder import RunFolder
    from scalana.graphs.spans.operator_costs import product_type
    from scalana.runtime.record.format import RecordError

    try:
        ppg = build_ppg(RunFolder(folder))
    except (RecordError, RunDataError) as error:
        raise CommandError(str(error)) from error
    settings = list(dict.fromkeys(settings_of(ppg).values()))
    if not settings:
        raise CommandError(f"{folder}: this run has no times of PyTorch modules to compare")
    types = sorted({product_type(kind) for kind in ppg.models.operators.kinds} - {""})
    return settings, types


def _compile(measured: Measured) -> None:
    """Have what counts operators compiled, if it is not yet: jobs from here on have it."""
    from scalana.runtime import user_cache
    from scalana.runtime.torch import build, native

    version = measured.setting.torch
    folder = user_cache.folder_of(user_cache.TORCH, os.environ)
    path = native.library_path(folder, measured.torch_folder, version, measured.torch_abi)
    if os.path.exists(path):
        return
    console.complain("compiling the operator counter")
    user_cache.want(path, measured.torch_folder)
    trouble = build.build(path, os.environ)
    if trouble:
        console.complain(f"the operator counter does not compile, so FLOPs are not counted: {trouble.splitlines()[0]}")


def _told(measured: Measured, file: str) -> list[str]:
    ceilings = measured.ceilings
    lines = [f"{measured.setting}, per process:"]
    lines += [f"  {value / 1e9:9.1f} GFLOP/s in {dtype}" for dtype, value in ceilings.flops.items()]
    lines += [f"  {value / 1e9:9.1f} GB/s for {_size(size)}" for size, value in ceilings.bandwidth]
    return [*lines, f"saved in {file}" if file else "could not save the result: check SCALANA_CACHE"]


def _size(count: int) -> str:
    return f"{count >> 10} kB" if count < 1 << 20 else f"{count >> 20} MB"
