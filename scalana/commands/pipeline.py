"""``scalana pipeline``: costs of layers, plans that are faster, and plans carried out."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from scalana import console
from scalana.errors import CommandError

if TYPE_CHECKING:
    from scalana.detectors.pipeline.plans.document import Written

_UNITS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


def memory(text: str) -> float:
    """A number with `k`, `M`, `G` or `T` behind it, or none.

    Raises:
        argparse.ArgumentTypeError: it is something else.

    >>> memory("80G")
    80000000000.0
    """
    number = text.rstrip("B").rstrip("kMGT")
    try:
        value = float(number) * _UNITS[text.rstrip("B")[len(number) :]]
    except (KeyError, ValueError):
        value = 0.0
    if not value > 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not an amount of memory: give a number, such as 80G or 32")
    return value


def positive(text: str) -> float:
    """A number above 0.

    Raises:
        argparse.ArgumentTypeError: it is something else.
    """
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not value > 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value


class PipelineCommand:
    """Plan pipeline parallelism: partition, placement and schedule together."""

    example = """\
examples:
  scalana pipeline layers scalana-20250131-142233 -o layers.json
  scalana pipeline plan scalana-20250131-142233 -o plan
  scalana pipeline plan layers.json --memory 64G --budget 30 -o plan
  scalana pipeline verify plan --baseline
  scalana pipeline verify plan --engine megatron
  scalana pipeline verify plan --model nets:make      make() returns (model, inputs of a microbatch)
"""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        actions = parser.add_subparsers(dest="action", required=True, metavar="layers|plan|verify")
        layers = actions.add_parser("layers", help="write the layer costs of a recorded pipeline")
        layers.add_argument("source", metavar="RUN", help="run folder, or a file of layer costs in another format")
        layers.add_argument("-o", "--output", metavar="FILE", required=True, help="JSON file to write")
        plan = actions.add_parser("plan", help="search for a faster plan")
        plan.add_argument("source", metavar="RUN|LAYERS", help="run folder, or a file of layer costs")
        plan.add_argument("-o", "--output", metavar="DIR", help="folder for the plan and the settings of engines")
        for one in (layers, plan):
            one.add_argument("--ranks", type=int, metavar="N", help="number of ranks, if the file has none")
            one.add_argument(
                "--microbatches", type=int, metavar="N", help="number of microbatches, if the file has none"
            )
            one.add_argument(
                "--pipeline",
                type=int,
                default=1,
                metavar="N",
                help="pipeline number, if the run has several (default: 1)",
            )
        _plan_options(plan)
        _verify_options(actions.add_parser("verify", help="run a plan, with layers that sleep or those of a model"))

    def run(self, args: argparse.Namespace) -> int:
        """Do what was asked for."""
        {"layers": _layers, "plan": _plan, "verify": _verify}[args.action](args)
        return 0


def _plan_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--memory",
        type=memory,
        metavar="X",
        help="memory of a rank, in the unit of the file (default: current use)",
    )
    parser.add_argument("--any-memory", action="store_true", help="do not limit memory")
    parser.add_argument(
        "--budget", type=positive, default=30.0, metavar="S", help="time limit in seconds (default: 30)"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="random seed of the search (default: 0)")
    parser.add_argument("--whole-backward", action="store_true", help="keep the backward of a stage in one piece")
    parser.add_argument("--recompute", action="store_true", help="recompute activations, to use less memory")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="format of the output")


def _verify_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="PLAN", help="plan folder, or its plan.json")
    parser.add_argument(
        "--engine",
        choices=("torch", "torchtitan", "megatron", "deepspeed"),
        default="torch",
        help="engine that runs its best plan with the written settings (default: torch's own runtime)",
    )
    parser.add_argument(
        "--model",
        metavar="MODULE:FACTORY",
        help="run the layers of a model instead; the function returns (model, inputs of a microbatch)",
    )
    parser.add_argument(
        "--baseline", action="store_true", help="also run the current or uniform plan, to measure the gain"
    )
    parser.add_argument(
        "--run-changed",
        action="store_true",
        help="run settings that differ from those that scalana writes for the plan",
    )
    parser.add_argument("--steps", type=int, default=3, metavar="N", help="steps after the first (default: 3)")
    parser.add_argument(
        "--stretch",
        type=positive,
        metavar="X",
        help="how many times as long as planned actions take (default: such that a typical one takes 20 ms, 50 ms "
        "with megatron and deepspeed; 1 with --model)",
    )


def _layers(args: argparse.Namespace) -> None:
    from scalana import plans

    profile = plans.read_profile(args.source, args.ranks, args.microbatches, args.pipeline)
    plans.write_profile(profile, args.output)
    console.deliver(f"{args.output}: {profile.layers} layers\n", None)


def _plan(args: argparse.Namespace) -> None:
    import json

    from scalana import plans
    from scalana.detectors.pipeline.plans.document import to_json
    from scalana.detectors.pipeline.plans.profile import ProfileError, recompute
    from scalana.detectors.pipeline.plans.proposal import Asked, propose
    from scalana.detectors.pipeline.plans.search import Effort
    from scalana.report.compare import plan_text
    from scalana.report.text.paint import Paint

    if args.memory is not None and args.any_memory:
        raise CommandError("--memory and --any-memory exclude each other: give one", 2)
    profile = plans.read_profile(args.source, args.ranks, args.microbatches, args.pipeline)
    if args.recompute:
        if profile.unit != "bytes":
            raise CommandError(
                "--recompute needs the bytes of activations and outputs: give them in a file of layer costs"
            )
        profile = recompute(profile)
    if args.memory is not None or args.any_memory:
        profile = profile.within(args.memory)
    asked = Asked(splits=not args.whole_backward, same_memory=not args.any_memory)
    try:
        proposal = propose(profile, asked, Effort(budget_s=args.budget, seed=args.seed))
    except ProfileError as error:
        raise CommandError(f"{args.source}: {error}") from error
    files = plans.write_proposal(proposal, args.output) if args.output else []
    if args.format == "json":
        console.deliver(json.dumps(to_json(proposal), indent=2, allow_nan=False) + "\n", None)
        return
    paint = Paint(console.wants_color(sys.stdout))
    console.deliver(plan_text.text(proposal, files, console.width(sys.stdout), paint), None)


def _announce(args: argparse.Namespace, written: Written) -> None:
    """Say what is about to run.

    Raises:
        CommandError: the settings are not those that scalana writes for this plan, and no option allows them.
    """
    from scalana import plans
    from scalana.detectors.pipeline.plans.means import own_settings

    if args.model:
        name, _, factory = args.model.partition(":")
        console.complain(
            f"running {factory}() of {plans.file_of_module(name) or f'the module {name}'}, as --model asks"
        )
    if args.engine == "torch":
        return
    file = plans.settings_beside(args.source, args.engine)
    changed = written.settings != own_settings(args.engine, written.profile, written.plan)
    if changed and not args.run_changed:
        raise CommandError(
            f"{file} is not what scalana writes for this plan, and {args.engine} would run it: read it, then add "
            "--run-changed, or write the plan again"
        )
    console.complain(f"running {file}" + (", which was changed" if changed else ""))


def _verify(args: argparse.Namespace) -> None:
    from scalana import plans
    from scalana.report.compare import plan_text
    from scalana.verify.run import How, check_plan, present

    if args.model and args.engine != "torch":
        raise CommandError("--model runs with torch's own runtime: remove --engine", 2)
    if args.model and ":" not in args.model:
        raise CommandError(f"--model {args.model}: write MODULE:FACTORY, such as models:make", 2)
    written = plans.read_written(args.source, args.engine)
    _announce(args, written)
    how = How(max(args.steps, 1), args.stretch, args.model or "")
    checked = check_plan(written, how)
    console.deliver(plan_text.checked_text(checked, None if args.model else written.profile.now), None)
    if not args.baseline:
        return
    found = present(written)
    if found is None:
        raise CommandError("no baseline: the layers cannot be split evenly")
    base, schedule = found
    console.deliver(plan_text.gained_text(base.plan.text, check_plan(base, how, schedule), checked), None)
