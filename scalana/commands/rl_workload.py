"""``scalana rl characterize``, ``generate`` and ``replay``: workloads of reinforcement learning."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from scalana import console
from scalana.commands.arguments import told, whole
from scalana.errors import CommandError

if TYPE_CHECKING:
    from scalana.report.document.sections import Section
    from scalana.workload.comparison import Compared
    from scalana.workload.costs import Decode
    from scalana.workload.replay import Setting
    from scalana.workload.step_costs import StepCosts
    from scalana.workload.trajectories import Workload

POLICIES = (
    "recorded",
    "batch",
    "fifo",
    "longest",
    "repack",
    "partial",
    "one-step-off",
    "stream",
    "relay",
    "relay-repack",
    "async",
)
FAMILIES = ("auto", "lognormal", "gamma", "weibull", "two-lognormals", "pareto-tail", "table")
COMPARED = ("recorded", "batch", "repack", "partial", "one-step-off", "stream", "relay", "relay-repack", "async")
"""Without one that knows lengths."""
COSTS = ("7b-tp2", "32b-tp4")
_SOURCE = "run folder, file of a workload, or files and folders that trainers wrote (docs/workloads.md)"


def numbers(text: str) -> list[int]:
    """Whole numbers from 1 on, of the command line, without those that are there twice."""
    return list(dict.fromkeys(whole(1)(part.strip()) for part in text.split(",")))


def configure(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the arguments."""
    characterize = actions.add_parser("characterize", help="lengths, turns, tools and verifier as distributions")
    generate = actions.add_parser("generate", help="draw a workload that is like another one")
    replay = actions.add_parser("replay", help="simulate a workload on any number of replicas")
    for one in (characterize, generate, replay):
        one.add_argument("source", metavar="SOURCE", nargs="+", help=_SOURCE)
    for one in (characterize, replay):
        one.add_argument(
            "--format", choices=("text", "json"), default="text", help="format of the output (default: text)"
        )
        one.add_argument("-o", "--output", metavar="FILE", help="write to FILE instead of standard output")
    _characterize_options(characterize)
    _generate_options(generate)
    _replay_options(replay)
    for one in (generate, replay):
        one.add_argument("--seed", type=whole(0), default=0, metavar="N", help="seed of what is drawn (default: 0)")
    for one, entry in ((characterize, _characterize), (generate, _generate), (replay, _replay)):
        one.set_defaults(workload=entry)


def _characterize_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--svg", metavar="FILE", help="draw distributions, fits and steps into FILE")
    parser.add_argument("--save", metavar="FILE", help="write the workload itself into FILE (.jsonl or .jsonl.gz)")


def _generate_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", metavar="FILE", required=True, help="file to write (.jsonl or .jsonl.gz)")
    parser.add_argument("--steps", type=whole(1), metavar="N", help="number of steps (default: those of SOURCE)")
    parser.add_argument("--prompts", type=whole(1), metavar="N", help="prompts a step (default: the median)")
    parser.add_argument("--answers", type=whole(1), metavar="N", help="answers a prompt (default: the median)")
    parser.add_argument(
        "--lengths", choices=FAMILIES, default="auto", help="distribution of lengths (default: the best that fits well)"
    )
    parser.add_argument("--drift", action="store_true", help="let lengths go on to change over the steps")


def _replay_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--policy",
        action="append",
        choices=POLICIES,
        help="how trajectories come to replicas; can be repeated (default: all that apply)",
    )
    parser.add_argument("--replicas", type=whole(1), metavar="N", help="replicas that generate (default: as recorded)")
    parser.add_argument(
        "--costs",
        metavar="ENGINE|RUN",
        help=f"costs, if SOURCE has none: of an engine ({' or '.join(COSTS)}), or of a recorded run",
    )
    parser.add_argument(
        "--compare",
        action="store_true",
        help="compare policies on the same devices: those that train ahead divide them in the fastest way",
    )
    parser.add_argument(
        "--devices", type=numbers, metavar="N,...", help="numbers of devices for --compare (default: as recorded)"
    )
    parser.add_argument(
        "--tensor",
        type=numbers,
        metavar="N,...",
        help="devices of a replica for --compare, the first as in the costs (default: 1, or those of the engine)",
    )
    parser.add_argument("--slots", type=whole(1), metavar="N", help="trajectories of a replica at once")
    parser.add_argument(
        "--staleness",
        type=whole(0),
        default=4,
        metavar="N",
        help="updates that weights may lack with async (default: 4)",
    )
    parser.add_argument(
        "--draws", type=whole(0), default=0, metavar="N", help="compare with N workloads drawn from the first half"
    )
    parser.add_argument(
        "--record", metavar="DIR", help="play the first policy with real processes, and record them into DIR"
    )


@contextmanager
def _usable(paths: Sequence[str]) -> Iterator[None]:
    """Turn errors of workloads into messages for the user."""
    from scalana.workload.errors import WorkloadError

    with told(" ".join(paths)):
        try:
            yield
        except WorkloadError as error:
            raise CommandError(str(error)) from error


def _print(args: argparse.Namespace, sections: Sequence[Section], entry: dict[str, object]) -> None:
    """Print sections as text, or an entry as JSON."""
    from scalana.report.text.page import joined
    from scalana.report.text.paint import Paint
    from scalana.report.text.sections import section_lines

    if args.format == "json":
        console.deliver(json.dumps(entry, indent=2, ensure_ascii=False, allow_nan=False) + "\n", args.output)
        return
    printed = args.output is None
    width = console.width(sys.stdout) if printed else console.MAX_WIDTH
    paint = Paint(printed and console.wants_color(sys.stdout))
    console.deliver(joined([section_lines(one, width, paint) for one in sections]), args.output)


def _characterize(args: argparse.Namespace) -> None:
    from scalana.report.pictures import workload_svg
    from scalana.report.workload import profile_sections
    from scalana.workload.profile import profile_of
    from scalana.workload.sources import read_workload

    with _usable(args.source):
        workload = read_workload(args.source)
        profile = profile_of(workload)
        _print(args, profile_sections.sections(profile), profile_sections.entry(profile))
        if args.svg:
            console.deliver(workload_svg.svg(workload, profile), args.svg)
        if args.save:
            _save(workload, args.save)


def _save(workload: Workload, path: str) -> None:
    from scalana.workload.workload_file import write

    try:
        write(workload, path)
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror or error}") from error


def _generate(args: argparse.Namespace) -> None:
    from dataclasses import replace

    from scalana.workload.draw import Draw, draw
    from scalana.workload.profile import profile_of
    from scalana.workload.sources import read_workload

    with _usable(args.source):
        workload = read_workload(args.source)
        profile = profile_of(workload)
        steps, prompts = args.steps or profile.steps, args.prompts or profile.prompts
        asked = Draw(steps, prompts, args.answers or profile.answers, args.seed, args.lengths, args.drift)
        drawn = replace(draw(profile, asked), decode=workload.decode)
        _save(drawn, args.output)
    console.deliver(f"{args.output}: {len(drawn)} trajectories in {steps} steps, {drawn.source}\n", None)


def _replay(args: argparse.Namespace) -> None:
    from scalana.report.workload import comparison_sections
    from scalana.report.workload import replay_sections as words
    from scalana.workload.fidelity import generative, replayability
    from scalana.workload.replay import replay
    from scalana.workload.sources import read_workload

    if (args.devices or args.tensor) and not args.compare:
        raise CommandError("--devices and --tensor are for --compare", 2)
    with _usable(args.source):
        workload = read_workload(args.source)
        if not args.compare or args.draws:
            _replicas(args, workload)
        costs = _costs(args, workload)
        fidelity = replayability(workload) if workload.times is not None else None
        if args.compare:
            found = _compared(args, workload, costs)
            sections = [comparison_sections.section(found, workload.unit)]
            entry: dict[str, object] = {"comparison": comparison_sections.entries(found)}
        else:
            settings = _settings(args, workload, costs)
            replays = [replay(workload, one) for one in settings]
            sections = [words.policies(replays, workload.unit)]
            entry = {"policies": [words.entry(one) for one in replays]}
        drawn = None
        if args.draws:
            if workload.steps < 4:
                raise CommandError(f"--draws: {workload.source} has {workload.steps} steps, at least 4 are needed")
            drawn = generative(workload, _settings(args, workload, costs)[-1], args.draws, args.seed)
    if args.record:
        if args.compare:
            raise CommandError("--record plays one policy: use it without --compare", 2)
        from scalana.verify.steps import play

        with _usable([args.record]):
            played = play(workload, replays[0], args.record)
        sections.append(words.played(workload, replays[0], played, args.record))
    if fidelity is not None:
        sections.append(words.replayability(fidelity))
    if drawn is not None:
        sections.append(words.generative(drawn))
    _print(args, sections, {**entry, "fidelity": words.fidelity_entries(fidelity, drawn)})


def _recorded(workload: Workload) -> int:
    """Replicas that it was recorded on, and says so of all trajectories; 0 for none."""
    return int(workload.replica.max(initial=-1)) + 1 if bool((workload.replica >= 0).all()) else 0


def _replicas(args: argparse.Namespace, workload: Workload) -> int:
    """On how many to replay: as is said, or as was recorded."""
    known = len(workload.generating)
    if not args.replicas and not known:
        raise CommandError(f"{workload.source} does not say on how many replicas it was generated: give --replicas", 2)
    return args.replicas or known


def _settings(args: argparse.Namespace, workload: Workload, costs: tuple[Decode, StepCosts | None]) -> list[Setting]:
    """What to replay: each policy that was named, or all that apply."""
    from scalana.workload.replay import Setting

    replicas, decode, recorded = _replicas(args, workload), costs[0], _recorded(workload)
    chosen = args.policy or _applicable(POLICIES, not workload.runs_on and 0 < recorded and not args.replicas, decode)
    found = []
    for name in chosen:
        # What was recorded is replayed by the numbers of processes, some of which may not generate.
        by_rank = name == "recorded" and not args.replicas
        number, one = (recorded, decode) if by_rank else (replicas, decode.of(workload.generating))
        found.append(Setting(name, number, one, costs[1], args.staleness))
    return found


def _applicable(names: Sequence[str], may_record: bool, decode: Decode) -> list[str]:
    """Policies without those that a workload does not allow."""
    from scalana.workload.replay import POLICIES as TABLE

    fits = [name for name in names if may_record or name != "recorded"]
    return [name for name in fits if not (TABLE[name].packs and decode.whole_batches)]


def _compared(args: argparse.Namespace, workload: Workload, costs: tuple[Decode, StepCosts | None]) -> list[Compared]:
    """Policies on the same devices."""
    from scalana.workload.comparison import compare, recorded_devices
    from scalana.workload.costs import TENSOR
    from scalana.workload.replay import Setting

    decode, steps = costs
    if steps is None:
        raise CommandError(
            f"--compare: {workload.source} does not say what training takes: give --costs RUN, a recorded run", 2
        )
    if args.replicas:
        raise CommandError("--compare divides devices itself: give --devices in place of --replicas", 2)
    tensors = args.tensor or [TENSOR.get(args.costs, 1)]
    recorded = recorded_devices(workload, steps)
    devices = args.devices or ([recorded] if recorded else [])
    if not devices:
        raise CommandError(f"{workload.source} does not say on how many devices it ran: give --devices", 2)
    may_record = not workload.runs_on and _recorded(workload) > 0 and devices == [recorded] and tensors == [1]
    names = args.policy or _applicable(COMPARED, may_record, decode)
    base = Setting(names[0], 1, decode if may_record else decode.of(workload.generating), steps, args.staleness)
    return compare(workload, base, names, devices, tensors)


def _costs(args: argparse.Namespace, workload: Workload) -> tuple[Decode, StepCosts | None]:
    """Costs of generation, and of the rest of a step."""
    from dataclasses import replace

    from scalana.workload.costs import named
    from scalana.workload.sources import read_workload
    from scalana.workload.step_costs import fit_steps

    decode, of = workload.decode, workload
    if args.costs in COSTS:
        decode = named(args.costs)
    elif args.costs:
        of = read_workload([args.costs])
        decode = of.decode
    if decode is None:
        names = " or ".join(f"--costs {name}" for name in COSTS)
        raise CommandError(
            f"{of.source} does not say what generation costs: give {names}, or a workload with 'decode'", 2
        )
    return replace(decode, slots=args.slots) if args.slots else decode, fit_steps(of)
