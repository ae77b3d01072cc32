"""Planted scaling faults in simulated programs: place, kind, seconds, and what comes at more ranks."""

from __future__ import annotations

import numpy as np
import pytest

from scalana.detectors.delays.targets import TargetKind
from scalana.detectors.rollup.named_place import CodeLocation
from scalana.detectors.runs.costs import run_costs
from scalana.detectors.runs.scaling import ScalingError, detect
from scalana.detectors.runs.scaling.loss import _of_lines
from scalana.graphs.structure.psg import PSG, Place, VertexKind
from scalana.report.compare import scaling_text
from tests.detectors import scaling_jobs as jobs
from tests.detectors.scaling_jobs import LINES, STEPS, scale
from tests.long import also

NOISY = {"noise": 0.05, "run_noise": 0.02, "period_s": 0.005}
EXACT: dict[str, float] = {}
SIZES = [2, 4, 8, 16]


def growing(ranks):
    """Milliseconds of a collective whose cost grows."""
    return 4.0 * ranks**0.5


FAULTS = {
    "root": (jobs.root_loop, None, "strong", "serial", "gather", "like p"),
    "table": (jobs.rebuilt_table, None, "strong", "replicated", "table", "constant"),
    "halo": (jobs.growing_halo, None, "strong", "non-scalable", "halo", "falls"),
    "collective": (jobs.plain, growing, "strong", "communication", "allreduce", "slower than p"),
    "weak root": (jobs.weak_root_loop, None, "weak", "serial", "gather", "like p"),
}


def run(name, sizes, **options):
    cost, transfer, *_ = FAULTS[name]
    return scale(sizes, cost, **({"transfer": transfer} if transfer else {}), **options)


@pytest.mark.parametrize("noise", [EXACT, NOISY], ids=["exact", "noisy"])
@pytest.mark.parametrize("name", FAULTS)
def test_the_planted_fault_is_on_top(name, noise):
    _, _, scaling, kind, place, growth = FAULTS[name]
    found = run(name, SIZES, at=64, **noise)
    assert found.ideal.scaling == scaling and found.ideal.certain
    top = found.findings[0]
    assert top.kind == kind
    assert LINES[place] <= top.line <= top.end_line <= LINES[place] + 2 + (1 if place == "allreduce" else 0)
    if not noise:
        assert len(found.findings) == 1
        assert top.evidence.as_dict()["growth"] == growth
        assert top.evidence.as_dict()["confidence"] > 0.8


def test_seconds_lost_are_those_planted():
    table = run("table", SIZES).findings[0]  # 20 ms on each of 16 ranks instead of 2
    assert table.lost_s == pytest.approx(STEPS * 0.020 * (16 - 2))
    root = run("root", SIZES).findings[0]  # 5 ms a rank, and all ranks are delayed by it
    assert root.lost_s == pytest.approx(STEPS * 0.005 * (16**2 - 2**2))
    assert root.saving_s == pytest.approx(root.lost_s / 16)
    assert root.ranks == [0]
    weak = run("weak root", SIZES).findings[0]
    assert weak.lost_s == pytest.approx(STEPS * 0.002 * (16**2 - 16 / 2 * 2**2))


@pytest.mark.parametrize(("busy", "said"), [(0.05, True), (1.0, False)])
def test_what_is_no_computing_is_told(busy, said):
    analyses = [jobs.analyse(jobs.program(ranks, jobs.rebuilt_table)) for ranks in (2, 4, 8)]
    for analysis in analyses:
        own = analysis.ppg.timeline.own
        own.cpu_s[:] = busy * own.seconds
    found = detect([run_costs(analysis, "run") for analysis in analyses], 2, analyses[2])
    assert found.findings[0].evidence.as_dict()["cpu_share"] == pytest.approx(busy)
    assert ("waits for a lock" in scaling_text.render(found)) is said


def test_waiting_is_backtracked_from_the_symptom():
    path = run("root", SIZES).findings[0].path
    assert [hop.line for hop in path] == [LINES["allreduce"], LINES["gather"]]
    assert path[0].operation == "allreduce" and path[0].rank != 0 and path[-1].rank == 0


@pytest.mark.parametrize("noise", [EXACT, NOISY], ids=["exact", "noisy"])
@pytest.mark.parametrize("name", FAULTS)
def test_a_size_that_was_not_fitted_is_predicted(name, noise):
    expected = run(name, SIZES, at=64, **noise).prediction
    scaling = FAULTS[name][2]
    real = run(name, [2, 64], stated=scaling, **noise).sizes[-1].seconds
    # Four times the largest size that was fitted; what is left of noise there is the noise of each run.
    assert expected.seconds == pytest.approx(real, rel=0.25 if noise else 0.001)
    assert expected.low <= expected.seconds <= expected.high


@pytest.mark.parametrize("name", FAULTS)
def test_three_sizes_are_enough(name):
    expected = run(name, [2, 4, 8], at=32).prediction
    real = run(name, [2, 32], stated=FAULTS[name][2]).sizes[-1].seconds
    assert expected.seconds == pytest.approx(real, rel=0.001)


def test_two_sizes_answer_without_a_model():
    found = run("table", [2, 8], at=64)
    assert found.findings[0].kind == "replicated"
    assert "model" not in found.findings[0].evidence.as_dict()
    assert found.prediction is None
    assert any("third size" in warning for warning in found.warnings)


@pytest.mark.parametrize("noise", [EXACT, NOISY], ids=["exact", "noisy"])
def test_a_program_that_scales_has_no_finding_of_its_work(noise):
    found = scale(SIZES, jobs.plain, **noise)
    worst = max((finding.lost_share * sum(p.loss_s for p in found.places if p.loss_s > 0)
                 for finding in found.findings), default=0.0)  # fmt: skip
    assert worst <= 0.08 * found.sizes[-1].seconds
    if not noise:
        assert found.findings == []


def test_asking_for_a_size_orders_by_what_is_lost_there():
    def cost(rank, ranks):
        # The table loses more on 8 ranks, the loop over ranks on 256.
        return {"solve": 400 / ranks, "table": 40, **({"gather": 1.0 * ranks} if rank == 0 else {})}

    assert [f.kind for f in scale([2, 4, 8], cost).findings] == ["replicated", "serial"]
    far = scale([2, 4, 8], cost, at=256)
    assert [f.kind for f in far.findings] == ["serial", "replicated"]
    assert far.findings[0].evidence.as_dict()["predicted"]["lost_s"] == pytest.approx(
        STEPS * 0.001 * (256**2 - 4), rel=0.01
    )


def test_repeated_runs_tell_the_noise():
    quiet = scale([2, 2, 2, 4, 4, 8, 8], jobs.rebuilt_table)
    loud = scale([2, 2, 2, 4, 4, 8, 8], jobs.rebuilt_table, run_noise=0.1)
    assert quiet.noise.repeated and loud.noise.repeated
    assert quiet.noise.relative < 0.03 < loud.noise.relative
    assert not scale([2, 4, 8], jobs.rebuilt_table).noise.repeated
    assert quiet.findings[0].evidence.as_dict()["seconds"] == pytest.approx([STEPS * 0.020] * 3)


@pytest.mark.parametrize(
    "slow",
    [2, *also(0, 1, 3, 4)],
    ids=lambda number: f"{2 ** (number + 1)} ranks",
)
def test_a_run_on_a_busy_machine_counts_for_nothing(slow):
    sizes = [2, 4, 8, 16, 32]

    def compared(factors):
        analyses = []
        for number, (ranks, factor) in enumerate(zip(sizes, factors, strict=True)):

            def cost(rank, ranks, factor=factor):
                return {name: factor * ms for name, ms in jobs.rebuilt_table(rank, ranks).items()}

            analyses.append(jobs.analyse(jobs.program(ranks, cost, seed=number, noise=0.03), period_s=0.005))
        runs = [run_costs(analysis, f"run-{ranks}") for ranks, analysis in zip(sizes, analyses, strict=True)]
        return detect(runs, 4, analyses[4], at=64)

    quiet, busy = compared([1.0] * 5), compared([1.4 if number == slow else 1.0 for number in range(5)])
    assert quiet.noise.disturbed is None
    assert busy.noise.disturbed.run == slow
    assert f"run-{sizes[slow]} took 1.4 times" in busy.warnings[0]
    assert [finding.function for finding in busy.findings] == [finding.function for finding in quiet.findings]
    assert busy.findings[0].lost_s == pytest.approx(quiet.findings[0].lost_s, rel=0.06)
    assert busy.prediction.seconds == pytest.approx(quiet.prediction.seconds, rel=0.2)
    assert busy.prediction.ideal_s == pytest.approx(quiet.prediction.ideal_s, rel=0.06)


def test_a_place_that_grows_at_one_size_is_no_busy_machine():
    def cost(rank, ranks):
        return {"solve": 400 / ranks, "table": 20, "halo": 60 if ranks == 32 else 60 / ranks}

    found = scale([2, 4, 8, 16, 32], cost)
    assert found.noise.disturbed is None
    assert {finding.function for finding in found.findings} == {"halo", "table"}


def test_scaling_that_was_stated_is_believed():
    found = scale([2, 4, 8], jobs.weak_root_loop, stated="strong")
    assert found.ideal.stated and found.ideal.scaling == "strong"
    assert found.ideal.exponent == pytest.approx(1.0, abs=0.01)


def test_efficiency_is_ideal_by_real_seconds():
    found = run("table", SIZES)
    assert [size.ranks for size in found.sizes] == SIZES
    ideal = [found.sizes[0].seconds * 2 / ranks for ranks in SIZES]
    assert [size.ideal_s for size in found.sizes] == pytest.approx(ideal)
    assert np.diff([size.efficiency for size in found.sizes]).max() < 0


def test_one_size_is_refused():
    with pytest.raises(ScalingError, match="4 ranks: at least two sizes"):
        scale([4, 4], jobs.plain)


@pytest.fixture(params=[False, True], ids=["unknown", "known"])
def helper(monkeypatch, request):
    """All activities do their work in one and the same function; whether the source shows the calls of it."""
    plain, known = jobs.structure, request.param

    def with_helper(names, moved=0):
        psg, vertex = plain(names, moved)
        for name in {"solve", "table", "gather"} & set(names):
            place = Place("/job/job.py", 90 + moved, 92 + moved, 0, "spin")
            line = jobs.LINES[name] + 1 + moved
            site = Place("/job/job.py", line, line, 8, "spin") if known else None
            function = psg.add(VertexKind.FUNCTION, place, psg[vertex[name]].parent, site=site)
            place = Place("/job/job.py", 91 + moved, 91 + moved, 4, "busy(x)")
            vertex[name] = psg.add(VertexKind.COMP, place, function)
        return psg, vertex

    monkeypatch.setattr(jobs, "structure", with_helper)
    return known


def test_a_helper_that_scales_for_one_caller_does_not_hide_the_other(helper):
    (finding,) = scale(SIZES, jobs.rebuilt_table, at=64).findings
    line, function = (jobs.LINES["table"] + 1, "table") if helper else (91, "spin")
    assert (finding.kind, finding.line, finding.function) == ("replicated", line, function)
    assert finding.evidence.as_dict()["seconds"] == pytest.approx([STEPS * 0.020] * len(SIZES))
    assert finding.evidence.as_dict()["growth"] == "constant"


def test_callers_that_lose_in_one_helper_are_told_apart(helper):
    def cost(rank, ranks):
        return {"solve": 400 / ranks, "table": 20, **({"gather": 3 * ranks} if rank == 0 else {})}

    first, second = scale(SIZES, cost, at=64).findings
    lines = [jobs.LINES[name] + 1 if helper else 91 for name in ("gather", "table")]
    assert (first.kind, first.line, first.ranks) == ("serial", lines[0], [0])
    assert first.evidence.as_dict()["seconds"] == pytest.approx([STEPS * 0.003 * ranks for ranks in SIZES])
    assert (second.kind, second.line, second.ranks) == ("replicated", lines[1], list(range(16)))
    assert second.evidence.as_dict()["seconds"] == pytest.approx([STEPS * 0.020] * len(SIZES))


def test_communication_without_a_core_each_is_not_extrapolated():
    """What grows like that because ranks outnumber cores must not go before what is known to grow."""

    def transfer(ranks):
        return 0.02 * ranks**3

    def found(cores):
        return scale([2, 4, 8], jobs.root_loop, transfer=transfer, at=64, cores=cores).findings

    assert [finding.kind for finding in found(8)] == ["communication", "serial"]
    assert [finding.kind for finding in found(2)] == ["serial", "communication"]


def renamed(analysis, which):
    """The analysis of a program of which some vertices are those of another one."""
    for vertex in analysis.ppg.psg.vertices[1:]:
        if which(vertex):
            vertex.kind = VertexKind.BRANCH if vertex.kind is VertexKind.LOOP else vertex.kind
            vertex.place = Place("/other/sort.py", 500 - vertex.index, 500, 7 * vertex.index, f"sort_{vertex.index}")
    return analysis


def test_runs_of_another_program_are_refused():
    analyses = [jobs.analyse(jobs.program(ranks, jobs.plain)) for ranks in (2, 4)]
    renamed(analyses[0], lambda vertex: True)
    with pytest.raises(ScalingError, match="run-0 and run-1 share hardly any code"):
        detect([run_costs(a, f"run-{n}") for n, a in enumerate(analyses)], 1, analyses[1])


def test_runs_of_which_most_is_other_code_are_asked_about():
    def cost(rank, ranks):
        return {"solve": 300 / ranks, "table": 100 / ranks}

    analyses = [jobs.analyse(jobs.program(ranks, cost)) for ranks in (2, 4)]
    psg = analyses[0].ppg.psg
    solve = {vertex.index for vertex in psg.vertices if psg.function_of(vertex.index) == "solve"}
    renamed(analyses[0], lambda vertex: vertex.index in solve)
    found = detect([run_costs(a, f"run-{n}") for n, a in enumerate(analyses)], 1, analyses[1])
    assert "75% of run-0 are spent at places that run-1 does not have" in found.warnings[0]
    assert not any("places" in text for text in scale([2, 4], cost).warnings)


def test_ranks_without_a_record_are_taken_for_average_ones():
    analyses = [jobs.analyse(jobs.program(ranks, jobs.rebuilt_table)) for ranks in (2, 4)]
    whole = [run_costs(analysis, "run") for analysis in analyses]
    for analysis in analyses:
        analysis.ppg.run.ranks *= 2  # as many again, of which there is no record
        analysis.ppg.run.exit_code = 9
    half = [run_costs(analysis, "run") for analysis in analyses]
    for one, other in zip(whole, half, strict=True):
        assert other.cost_s.sum() / other.ranks == pytest.approx(one.cost_s.sum() / one.ranks)
    assert any("exit code 9" in text for text in detect(half, 1, analyses[1]).warnings)


def test_the_work_and_the_communication_of_one_line_are_one_place() -> None:
    """A call that pickles and sends: both lose, and the line is named for what loses more."""
    psg = PSG()
    main = psg.add(VertexKind.FUNCTION, Place("/job/job.py", 1, 9, 0, "main"), 0)
    call = psg.add(VertexKind.COMM, Place("/job/job.py", 5, 5, 4, "allgather"), main, 1)
    work = psg.add(VertexKind.CALL, Place("/job/job.py", 5, 5, -1, "dumps"), main)
    other = psg.add(VertexKind.COMP, Place("/job/job.py", 6, 6, 4, "x"), main)
    sent, pickled = CodeLocation(TargetKind.TRANSFER, call, -1), CodeLocation(TargetKind.OWN, work, 5)
    beside = CodeLocation(TargetKind.OWN, other, 6)
    groups = {sent: [0], pickled: [1, 2], beside: [3]}
    assert _of_lines(groups, np.array([2.0, 3.0, 1.0, 4.0]), psg) == {beside: [3], pickled: [1, 2, 0]}
    assert _of_lines(groups, np.array([2.0, -3.0, 1.0, 4.0]), psg).keys() == {sent, pickled, beside}
