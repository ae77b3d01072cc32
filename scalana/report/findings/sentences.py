"""What is said of a finding: its claim, where and when it happens, what it costs, and what follows."""

from __future__ import annotations

from collections.abc import Mapping

from scalana.detectors.evidence import CHILDREN, PYTHON_THREADS, THREADS, THREADS_OF_CHILDREN, SlowSource
from scalana.detectors.finding import Finding
from scalana.detectors.kind import OF_WAITING
from scalana.detectors.kinds import kind_of
from scalana.graphs.run_info import RunInfo
from scalana.report import names
from scalana.report.findings.claims import claim
from scalana.report.findings.experts import expert_layers, mended_by, other_loads
from scalana.report.findings.inside import in_compiled, in_module, in_work
from scalana.report.findings.over_steps import shorter_step, trend, when

_MOST_SERVERS = 4

LITTLE, MUCH = 0.5, 1.1
"""Times as much as each other rank waits, from which a saving is so little, or so much, that it says why."""
_NO_CHANGE = 0.02
"""Part of the largest change of its like below which a change is none."""
_NEXT_TO = {
    THREADS: (
        "a thread of a library (OpenMP, BLAS) that computes next to its main thread",
        "{} threads of libraries (OpenMP, BLAS) that compute next to its main thread",
    ),
    PYTHON_THREADS: ("another Python thread that computes", "{} other Python threads that compute"),
    CHILDREN: ("a child process that computes", "{} child processes that compute"),
    THREADS_OF_CHILDREN: (
        "child processes, each with a thread of a library (OpenMP, BLAS) that computes",
        "child processes, each with up to {} threads of libraries (OpenMP, BLAS) that compute",
    ),
}
"""What computes next to the main thread of a rank: one, and several of it."""
_COMPUTES = 0.5
"""Part of a cause that is spent on a CPU, or without one that it wants, from which mending it leaves a core to others.
"""
_LEFT_OUT = 0.05
"""Part of what calls take that a finding must leave out to say so."""
_HAS_CORE = 0.1
"""Part of it that must be spent on a CPU."""


def sentences(finding: Finding, run: RunInfo) -> list[str]:
    """What is said of a finding, a sentence or a few in each: the claim first."""
    said = (
        claim(finding, run.ranks, run.names),
        lengths(finding, run),
        source(finding, run),
        mask(finding, run),
        sizes(finding, run),
        tail(finding, run),
        in_module(finding),
        in_compiled(finding),
        in_work(finding),
        when(finding),
        trend(finding),
        loading(finding),
        serialising(finding),
        more_workers(finding),
        other_loading(finding),
        expert_layers(finding),
        other_loads(finding),
        moved(finding),
        over_link(finding),
        counted(finding),
        fewer_calls(finding),
        other_calls(finding),
        busy_cores(finding),
        faster(finding),
        compiling(finding),
        frozen(finding),
        asking(finding),
        cost(finding, run),
        redistributed(finding),
        balanced(finding),
        sampled(finding),
        blocked(finding, run),
        slowed(finding, run),
        other_passes(finding, run),
        behind(finding, run),
        recurrence(finding),
    )
    return [sentence for sentence in said if sentence]


def cost(finding: Finding, run: RunInfo) -> str:
    """What it costs, and what comes back."""
    if finding.lost_s <= 0 and finding.saving_s <= 0:
        return ""
    kind = kind_of(finding.kind)
    lost = f"This costs {names.rank_seconds(finding.lost_s)} {kind.unit}"
    if finding.saving_s <= 0 and not kind.predicts:
        return f"{lost}."
    if off := finding.evidence.replay_off:
        return f"{lost}. Saving not estimated: the replay differs from the run by {names.percent(off)}."
    if finding.saving_s <= 0:
        return f"{lost}. {kind.unmended}."
    share = f" ({names.percent(finding.saving_s / run.seconds)})" if run.seconds else ""
    most = "at most " if finding.evidence.is_bound else ""
    step = shorter_step(finding)
    shorter = f"the run would be {most}{names.seconds(finding.saving_s)}{share} shorter"
    text = f"{lost}; {_mended(finding)} {f'{step}, and {shorter}' if step else shorter}{_why_little(finding, run)}"
    cpu, core_wait = (share or 0.0 for share in finding.evidence.cpu_split())
    if cpu >= _HAS_CORE and cpu + core_wait >= _COMPUTES and run.cores.sharing():
        return f"{text}, and more if it frees a core that other ranks wait for."
    return f"{text}."


def _mended(finding: Finding) -> str:
    """When the run would be as much shorter as is predicted."""
    if (experts := finding.evidence.experts) is not None:
        return mended_by(experts)
    known = finding.evidence.source
    if finding.evidence.worker_starts is not None:
        return "with workers that are kept"
    if (spared := finding.evidence.spared) is not None:
        return "with one reduction a step" if spared.reduced_times else "without these calls"
    return _other_ways(known)[0][0] if known is not None else kind_of(finding.kind).mended


def _why_little(finding: Finding, run: RunInfo) -> str:
    """Why the run would be shorter by much less, or by more, than each rank waits; "" where it is by about as much."""
    evidence = finding.evidence
    if kind_of(finding.kind).unit != OF_WAITING or evidence.is_bound or evidence.lengths or evidence.mask:
        return ""
    others = run.ranks - len(finding.ranks)
    each_s = finding.lost_s / max(others or run.ranks - 1, 1)
    if finding.saving_s < LITTLE * each_s and evidence.behind is None:
        return ", as other delays at the same time take its place"
    if finding.saving_s > MUCH * finding.lost_s:
        return ": more than the others wait, as part of this delays the end of the run"
    return ""


def redistributed(finding: Finding) -> str:
    """What other distributions of sequences bring, one next to the other."""
    known = finding.evidence.lengths
    if known is None:
        return ""
    by_name = {one.change: one.saving_s for one in known.redistributions}
    received = next((one.received for one in known.redistributions if one.received), None)
    cut = ""
    if received is not None:
        cut = (
            " Cut into blocks only where a rank would have over a tenth too much (as DCP does), {}, without the time "
            f"for keys and values of up to {received:,.0f} tokens that a rank gets from others in a step."
        )

    def change(name: str) -> str:
        saving_s = by_name[name]
        if abs(saving_s) < _NO_CHANGE * max(map(abs, by_name.values())):
            return "no shorter"
        return f"{names.seconds(abs(saving_s))} {'shorter' if saving_s > 0.0 else 'longer'}"

    return (
        f"Packed by cost with no more tokens on any rank than now, the run would be {change('by-cost-same-memory')}; "
        f"packed by tokens, {change('by-tokens')}; with sequences split evenly over the ranks (context parallelism), "
        f"at most {change('split-evenly')}, as its communication is not included.{cut.format(change('blocks'))}"
    )


def balanced(finding: Finding) -> str:
    """What comes back where the work is not left out but spread over the ranks, or done by all at the same time."""
    saving_s, together_s = finding.evidence.balanced_saving_s, finding.evidence.together_saving_s
    if together_s is not None:
        return (
            "The ranks do this at different times, hardly ever two at once: at the same time on all, the run would be "
            f"{names.seconds(together_s)} shorter."
        )
    if saving_s is None:
        return ""
    return f"If this work were spread evenly over all ranks, the run would be {names.seconds(saving_s)} shorter."


def sampled(finding: Finding) -> str:
    """That what it costs was seen in few steps, where it was."""
    device = finding.evidence.device
    if device is None or device.marked_steps is None or device.steps is None or device.steps <= device.marked_steps:
        return ""
    marked, steps = device.marked_steps, device.steps
    seen = "1 step, which stands" if marked == 1 else f"{marked} steps, which stand"
    return f"It was measured in {seen} for {steps} steps."


def lengths(finding: Finding, run: RunInfo) -> str:
    """How surely lengths of sequences explain what ranks take, and where these are from."""
    known = finding.evidence.lengths
    if known is None:
        return ""
    where = names.place(names.near(known.lengths_file, run.cwd), known.lengths_line)
    return (
        f"Lengths of sequences explain {names.percent(known.fit)} of how ranks differ in {known.fitted_steps} steps "
        f"({known.lengths_from} at {where})."
    )


def mask(finding: Finding, run: RunInfo) -> str:
    """How ranks that divide sequences are known, and how surely the mask explains what they take."""
    known = finding.evidence.mask
    if known is None:
        return ""
    where = names.place(names.near(known.mask_file, run.cwd), known.mask_line)
    way = f"gather keys and values on all {known.mask_ranks}"
    if known.mask_way == "ring":
        way = f"pass keys and values around a ring of {known.mask_ranks}"
    return f"The ranks {way} ({where}); the mask explains {names.percent(known.mask_share)} of how they differ."


def sizes(finding: Finding, run: RunInfo) -> str:
    """How large the parts of ranks are, how surely that explains what they take, and where it is known from."""
    known = finding.evidence.sizes
    if known is None:
        return ""
    where = names.place(names.near(known.size_file, run.cwd), known.size_line)
    return (
        f"{known.size_here:,.0f} {known.size_of}, on the median rank {known.size_median:,.0f}, explain "
        f"{names.percent(known.size_share)} of how ranks differ (`{known.size_argument}` at {where})."
    )


def tail(finding: Finding, run: RunInfo) -> str:
    """Which tasks of a pool take long, and what other ways of doing them bring."""
    known = finding.evidence.tail
    if known is None:
        return ""
    text = ""
    if finding.kind != "task-tail":
        last = f"The last of {known.tail_of} tasks"
        if known.tail_tasks:
            part = f"{known.tail_percent:.0f} % of the time of all"
            takes = "takes" if known.tail_tasks == 1 else "take"
            last = f"{known.tail_tasks} of {known.tail_of} tasks {takes} {part}; the last"
        by = f" on {run.names.one(known.tail_rank)}" if known.tail_rank is not None else ""
        text = (
            f"{last}, {known.tail_last}{by}, begins after {names.seconds(known.tail_last_begin_s)} and runs alone for "
            f"{names.seconds(known.tail_alone_s)}. "
        )
    ways = [(known.longest_first_s, "with the longest first"), (known.halves_s, "with tasks cut in half")]
    if known.twice_the_workers_s is not None:
        ways.append((known.twice_the_workers_s, f"with {2 * known.tail_workers} workers"))
    (most_s, way), *more = sorted(ways, reverse=True)
    rest = "".join(f", {other} {names.seconds(earlier_s)}" for earlier_s, other in more)
    return f"{text}{way.capitalize()} the pool would be done {names.seconds(most_s)} earlier{rest}."


def loading(finding: Finding) -> str:
    """That it lies in waiting for data, if it does."""
    known = finding.evidence.loading
    if known is None:
        return ""
    of = f" of `{known.dataset}`" if known.dataset is not None else ""
    workers = {None: "", 0: " (no workers)", 1: " (1 worker)"}.get(known.workers, f" ({known.workers} workers)")
    text = f"This time is spent waiting for the DataLoader{of}{workers}."
    if (starts := finding.evidence.worker_starts) is None:
        return text
    epochs = "once" if starts.worker_starts == 1 else f"{starts.worker_starts} times"
    return (
        f"{text} It starts its workers {epochs} after the first epoch, at {names.seconds(starts.worker_start_s)} each."
    )


def source(finding: Finding, run: RunInfo) -> str:
    """What a source of data costs, in which steps and where."""
    known = finding.evidence.source
    if known is None:
        return ""
    said = [
        f"Such a sample takes {names.seconds(known.sample_s)} to load, one of the others "
        f"{names.seconds(known.other_sample_s)}."
    ]
    if known.steps_with_s is not None and known.steps_without_s is not None:
        with_s, without_s = names.seconds(known.steps_with_s), names.seconds(known.steps_without_s)
        said.append(f"Steps with such samples take {with_s}, steps without them {without_s}.")
    if known.source_worker is not None and known.source_worker_rank is not None:
        where, share = run.names.one(known.source_worker_rank), names.percent(known.source_worker_share or 0.0)
        said.append(f"On {where}, worker {known.source_worker} loads {share} of these samples.")
    return " ".join(said)


def other_loading(finding: Finding) -> str:
    """What a step would take with other ways to load a source."""
    known = finding.evidence.source
    if known is None or not known.other_loading:
        return ""
    (first, first_s), *more = ((way, names.seconds(step_s)) for way, step_s in _other_ways(known))
    rest = "".join(f", {way} {step_s}" for way, step_s in more)
    now_s = names.seconds(known.source_step_s)
    return f"{first[0].upper()}{first[1:]}, a step would take {first_s} instead of {now_s}{rest} (predicted)."


def _other_ways(known: SlowSource) -> list[tuple[str, float]]:
    """Ways to load a source in words, the best first."""
    workers = 2 * known.source_workers or 1
    words = {
        "dealt-evenly": "with its samples dealt out evenly over the ranks in each step",
        "in-every-batch": "with the same share of this source in every batch",
        "more-workers": f"with {workers} worker{'s' if workers > 1 else ''} a rank",
        "own-workers": "with as many workers again for this source alone",
        "further-ahead": "with twice as many batches ahead",
    }
    return [(words[one.change], one.step_s) for one in known.other_loading]


def serialising(finding: Finding) -> str:
    """That it lies in pickling, if it does: how much of what."""
    known = finding.evidence.serialising
    if known is None:
        return ""
    if known.pickled == "requests":
        return (
            f"This time is spent on {known.pickles:,} requests to the process of a multiprocessing Manager "
            f"({names.seconds(known.pickle_s)} in all), which pickle what is asked for and what is answered."
        )
    what = {"arguments": "arguments of calls", "result": "results of calls", "message": "messages"}
    objects = "1 object" if known.pickles == 1 else f"{known.pickles} objects"
    longest = f", at most {names.seconds(known.longest_pickle_s)} for one" if known.pickles > 1 else ""
    does = "unpickling" if known.unpickled else "pickling"
    return (
        f"This time is spent {does} {what.get(known.pickled, 'objects')}: {objects}, "
        f"{names.data(known.pickle_bytes)}, {names.seconds(known.pickle_s)}{longest}."
    )


def more_workers(finding: Finding) -> str:
    """What a step would take with more workers of loaders or pools, where that is predicted."""
    bound = finding.evidence.input_bound or finding.evidence.worker_bound
    if bound is None or not bound.predicted_workers:
        return ""
    (first, first_s), *more = zip(bound.predicted_workers, bound.predicted_step_s, strict=True)
    workers = "1 worker" if first == 1 else f"{first} workers"
    rest = "".join(f", with {number} {names.seconds(seconds)}" for number, seconds in more)
    return f"With {workers} a step takes {names.seconds(first_s)}{rest} (predicted)."


def moved(finding: Finding) -> str:
    """How much the calls of a finding move, and how fast."""
    known, limit = finding.evidence.transfers, finding.evidence.step_limit
    if known is None or known.step_bytes <= 0.0:
        return ""
    when = "a step" if limit is not None and limit.step_s is not None else "in all"
    calls = "1 call" if round(known.step_calls) <= 1 else f"{known.step_calls:.0f} calls"
    best = f", at best {names.rate(known.best_bytes_per_s)}" if known.best_bytes_per_s > known.bytes_per_s else ""
    return (
        f"{known.transfer_operation} moves {names.data(known.step_bytes)} {when} in {calls}, "
        f"at {names.rate(known.bytes_per_s)} on average{best}."
    )


def over_link(finding: Finding) -> str:
    """How much crosses a slow link, what that costs, and what a step would take without."""
    known = finding.evidence.link
    if known is None:
        return ""
    when = "In the run" if known.link_step_s is None else "In an average step"
    transfers = "1 transfer" if round(known.link_calls) <= 1 else f"{known.link_calls:.0f} transfers"
    moves = f"{when}, {names.data(known.link_bytes)} cross it in {transfers}"
    costs = f"{names.seconds(known.link_extra_s)} more than at the speed of the others"
    if known.link_step_s is None or known.link_mended_step_s is None:
        return f"{moves}, which take {costs}."
    return (
        f"{moves}, which take {costs}. A step takes {names.seconds(known.link_step_s)}, and with a link as fast as the "
        f"others {names.seconds(known.link_mended_step_s)} (predicted)."
    )


def counted(finding: Finding) -> str:
    """Which seconds of communication a finding counts, and which it leaves out, where it does."""
    known, limit = finding.evidence.transfers, finding.evidence.step_limit
    if known is None or limit is None or known.calls_s - limit.limit_s < _LEFT_OUT * known.calls_s:
        return ""
    what, left_s = "a step" if limit.step_s is not None else "the run", known.calls_s - limit.limit_s
    return (
        f"All calls together take {names.seconds(known.calls_s)} of {what}, apart from waiting for other ranks. "
        f"{names.seconds(limit.limit_s)} of this is counted here. The other {names.seconds(left_s)} is left out, as "
        "waiting for cores."
    )


def fewer_calls(finding: Finding) -> str:
    """How many calls a program could do without, and what a step would take."""
    known, limit = finding.evidence.spared, finding.evidence.step_limit
    if known is None or limit is None:
        return ""
    calls = "1 call" if round(known.spared_of) <= 1 else f"{known.spared_of:.0f} calls"
    lines = f" on {known.spared_lines} lines" if known.spared_lines > 1 else ""
    moved = f" for {names.data(known.spared_bytes)}" if known.spared_bytes > 0.0 else ""
    would = f"{_mended(finding).capitalize()} it would take {names.seconds(limit.without_step_s)} (predicted)."
    return f"A step has {calls}{lines}{moved}. {would}"


def other_calls(finding: Finding) -> str:
    """What a step would take with fewer calls, or fewer bytes, what saves more first."""
    known, limit = finding.evidence.transfers, finding.evidence.step_limit
    if known is None or limit is None:
        return ""
    what = "a step" if limit.step_s is not None else "the run"
    ways = [(known.half_bytes_step_s, "with half the bytes")]
    if round(known.calls_in_one) > 1:
        one = "1 call" if round(known.calls_in_one) == round(known.step_calls) else "1 message from rank to rank"
        ways.append((known.in_one_call_step_s, f"with {one} instead of {known.calls_in_one:.0f}"))
    (first_s, first), *more = sorted(ways)
    now_s = limit.step_s or limit.run_s or 0.0
    more = [(then_s, way) for then_s, way in more if now_s - then_s >= _LEFT_OUT * now_s]
    rest = "".join(f", {way} {names.seconds(then_s)}" for then_s, way in more)
    return f"{first.capitalize()} {what} would take {names.seconds(first_s)}{rest} (predicted)."


def busy_cores(finding: Finding) -> str:
    """How many cores of a host the job keeps busy."""
    known = finding.evidence.busy_cores
    if known is None:
        return ""
    ranks = "1 rank" if known.host_ranks == 1 else f"{known.host_ranks} ranks"
    cores = "1 core" if known.host_cores == 1 else f"{known.host_cores} cores"
    keeps = "with its threads and children keeps" if known.host_ranks == 1 else "with their threads and children keep"
    text = f"{ranks} {keeps} {known.busy_cores:.1f} of {cores} busy."
    if known.computing is None or not known.computing_count:
        return text
    where = "It has" if known.host_ranks == 1 else "Each has"
    many = _NEXT_TO[known.computing][known.computing_count > 1].format(known.computing_count)
    return f"{text} {where} {many}."


def faster(finding: Finding) -> str:
    """What a step would take if the place of a finding took half as long on all ranks, or no time."""
    known = finding.evidence.step_limit
    if known is None or finding.evidence.spared is not None:
        return ""
    what = "a step" if known.step_s is not None else "the run"
    half, without = names.seconds(known.half_step_s), names.seconds(known.without_step_s)
    return f"If this took half as long, {what} would take {half}; without it {without} (predicted)."


def compiling(finding: Finding) -> str:
    """That it lies in compiling, if it does: for how long, and how often."""
    known = finding.evidence.compiling
    if known is None:
        return ""
    times = round(known.compilations)
    count = "1 compilation" if times == 1 else f"{times} compilations"
    others = f"; other ranks: {round(known.compilations_others)}" if known.compilations_others is not None else ""
    again = f", {round(known.again)} of them recompilations" if known.again else ""
    return f"This time is spent compiling (torch.compile): {names.seconds(known.seconds)} in {count}{again}{others}."


def frozen(finding: Finding) -> str:
    """What freezing the objects of the set-up saves, where a rank's collector delays others."""
    known = finding.evidence.collecting
    if known is None:
        return ""
    parts = []
    if known.longest_collection_s > 0.0:
        parts.append(f"The longest collection takes {names.seconds(known.longest_collection_s)}.")
    if known.frozen_saving_s > 0.0:
        saved = names.seconds(known.frozen_saving_s)
        parts.append(
            f"Without collections of the oldest generation (gc.freeze) the run would be at most {saved} shorter."
        )
    return " ".join(parts)


def asking(finding: Finding) -> str:
    """That it lies in waiting for servers that left no record, if it does: which, and for how long."""
    known = finding.evidence.servers
    if known is None:
        return ""
    what = "a server" if len(known) == 1 else "servers"
    return f"This time is spent waiting for {what} without a record: {_servers(known)}."


def _servers(seconds: Mapping[str, float]) -> str:
    shown = [f"{name} ({names.seconds(value)})" for name, value in list(seconds.items())[:_MOST_SERVERS]]
    more = len(seconds) - len(shown)
    return ", ".join(shown) + (f", {more} more" if more else "")


def blocked(finding: Finding, run: RunInfo) -> str:
    """Where ranks wait for what a thread or child of theirs does here, if they do."""
    known = finding.evidence.waits_at
    if known is None:
        return ""
    where = names.place(names.near(known.file, run.cwd), known.line)
    ranks, some = run.names.many(finding.ranks, run.ranks), "waits" if len(finding.ranks) == 1 else "wait"
    return f"Meanwhile {ranks} {some} at {where}" + (f" ({known.function})." if known.function else ".")


def slowed(finding: Finding, run: RunInfo) -> str:
    """Which lines take longer because a helper has their core, if one has."""
    lines = finding.evidence.slowed
    if lines is None:
        return ""
    places = [names.place(names.near(line.file, run.cwd), line.line) for line in lines]
    lost = sum(line.lost_s for line in lines)
    return f"It takes the core from {' and '.join(places[:4])}, where {names.rank_seconds(lost)} of this are lost."


def other_passes(finding: Finding, run: RunInfo) -> str:
    """What of it lies in the other pass of a module, and where."""
    said = [
        f"{names.rank_seconds(one.lost_s)} of this are due to its {one.direction}, at "
        f"{names.place(names.near(one.file, run.cwd), one.line)}."
        for one in finding.evidence.passes or ()
    ]
    return " ".join(said)


def recurrence(finding: Finding) -> str:
    """How it recurs, and which suspected causes are ruled out, if the finding says."""
    loop = finding.evidence.loop
    if loop is None:
        return ""
    text = f"Recurrence: {loop.recurrence}. " if loop.recurrence else ""
    return text + (f"Not the cause: {'; '.join(loop.not_the_cause)}." if loop.not_the_cause else "")


def behind(finding: Finding, run: RunInfo) -> str:
    """Which delay takes the place of this one once it is fixed, if one does."""
    other = finding.evidence.behind
    if other is None:
        return ""
    where = names.place(names.near(other.file, run.cwd), other.line)
    ranks = run.names.many(other.ranks, run.ranks)
    lost = names.rank_seconds(other.lost_s)
    return f"If this is fixed, {where} on {ranks} becomes the next delay, which costs {lost}."
