"""Native MPI programs under the preloaded recorder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import scalana
from scalana.graphs.ppg import build_ppg
from scalana.graphs.readers.folder.run_folder import RunFolder
from scalana.runtime.operations import BY_CODE, mpi_call
from scalana.runtime.record.format import EVENT_COMPLETION, ProcessRecord

from .conftest import PROGRAMS, Mpi, under_one_mpi

pytestmark = pytest.mark.slow
RECEIVES = {"MPI_Mprobe": "recv"}
"""A matched probe is recorded as the receive that it begins."""


def calls_by_operation(record: ProcessRecord) -> Counter[str]:
    totals = record.totals
    counted: Counter[str] = Counter()
    for operation, calls in zip(totals.operation, totals.calls):
        counted[BY_CODE[operation].name] += calls
    return counted


def totals_by_operation(record: ProcessRecord) -> dict[str, tuple[int, float]]:
    """Calls and seconds, but for those of MPI_Finalize."""
    totals = record.totals
    found: dict[str, tuple[int, float]] = {}
    for operation, calls, wall_ns in zip(totals.operation, totals.calls, totals.wall_ns):
        before = found.get(BY_CODE[operation].name, (0, 0.0))
        found[BY_CODE[operation].name] = before[0] + calls, before[1] + wall_ns * 1e-9
    assert found.pop("finalize")[0] == 1
    return found


def told_by_referee(mpi: Mpi, rank: int) -> dict[str, tuple[int, float]]:
    """The same, as the program has counted and timed it itself, around whatever is preloaded."""
    found: dict[str, tuple[int, float]] = {}
    for line in (mpi.work / f"referee.{rank}").read_text().splitlines():
        name, calls, seconds = line.split()
        call = mpi_call(name)
        assert call is not None
        operation = RECEIVES.get(name) or BY_CODE[call.operation].name
        before = found.get(operation, (0, 0.0))
        found[operation] = before[0] + int(calls), before[1] + float(seconds)
    return {operation: told for operation, told in found.items() if told[0]}


@pytest.mark.measured
@pytest.mark.parametrize("program", ["every_kind.c", "slow_rank.c"])
def test_calls_and_seconds_agree_with_an_independent_count(mpi: Mpi, program: str) -> None:
    built = mpi.compile(program, str(PROGRAMS / "referee.c"))
    records = RunFolder(mpi.record(4, built, REFEREE=str(mpi.work / "referee"))).processes()
    assert [record.rank for record in records] == [0, 1, 2, 3]
    for record in records:
        found, expected = totals_by_operation(record), told_by_referee(mpi, record.rank)
        assert {name: calls for name, (calls, _) in found.items()} == {
            name: calls for name, (calls, _) in expected.items()
        }
        told, truth = sum(s for _, s in found.values()), sum(s for _, s in expected.values())
        calls = sum(calls for calls, _ in expected.values())
        # A rank may lose its core between the two readings of a clock, or look up a call path for the first time.
        assert truth - 0.05 - 1e-4 * calls <= told <= truth, (record.rank, told, truth, found, expected)
        for name, (_, seconds) in found.items():
            assert seconds <= expected[name][1], (record.rank, name)
        assert record.ended and not record.notes and not record.troubles


@under_one_mpi
def test_the_report_has_calls_and_seconds_of_every_rank(mpi: Mpi) -> None:
    """Those of the records, where nothing was thinned out and where most was."""
    program = mpi.compile("slow_rank.c")
    for name, variables in (("all", {}), ("few", {"SCALANA_CALLS_HZ": "1"})):
        folder = RunFolder(mpi.record(4, program, name=name, **variables))
        run = build_ppg(folder).run
        for record in folder.processes():
            assert run.calls_of_rank[record.rank] == sum(record.totals.calls)
            assert run.comm_s_of_rank[record.rank] == pytest.approx(sum(record.totals.wall_ns) * 1e-9)


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], RunFolder]:
    """``recording(mpi.folder)`` is a run of ``every_kind.c`` on four ranks, recorded once."""

    @cache
    def record(folder: str) -> RunFolder:
        mpi = Mpi(folder, tmp_path_factory.mktemp("every_kind"))
        return RunFolder(mpi.record(4, mpi.compile("every_kind.c")))

    return record


@pytest.fixture
def every_kind(mpi: Mpi, recording: Callable[[str], RunFolder]) -> RunFolder:
    return recording(mpi.folder)


def test_all_calls_meet_their_partners(every_kind: RunFolder) -> None:
    ppg = build_ppg(every_kind)
    instances = ppg.timeline.instances
    assert len(instances) > 100
    odd = np.flatnonzero(~instances.complete)
    assert not len(odd), Counter(BY_CODE[int(instances.operation[row])].name for row in odd)


def test_communicators_have_one_name_on_all_members(every_kind: RunFolder) -> None:
    records = every_kind.processes()
    members: dict[str, list[int]] = {}
    seen: dict[str, list[int]] = {}
    for record in records:
        for group in record.groups.values():
            if "/" in group.name:  # not a communicator: neighbours in one
                assert group.name.endswith(f"/neighbours:{record.rank}")
                assert list(group.ranks) == [(record.rank - 1) % 4, (record.rank + 1) % 4]
                continue
            assert members.setdefault(group.name, list(group.ranks)) == list(group.ranks)
            assert group.ranks[group.my_rank] == record.rank
            seen.setdefault(group.name, []).append(record.rank)
    assert members["world"] == [0, 1, 2, 3]
    assert {name: sorted(ranks) for name, ranks in seen.items()} == {
        name: sorted(ranks) for name, ranks in members.items()
    }
    assert sorted(map(tuple, members.values())).count((3, 2, 1)) == 1  # split with keys in reverse
    assert {(0, 2), (1, 3), (0, 1)} <= set(map(tuple, members.values()))


def test_every_request_is_completed_once(every_kind: RunFolder) -> None:
    for record in every_kind.processes():
        events = record.events
        rows = [row for row in range(len(events)) if events.flags[row] & EVENT_COMPLETION and events.completes[row]]
        completed = Counter(events.completes[row] for row in rows)
        posts = {events.id[row] for row in range(len(events)) if events.flags[row] & 2}
        assert posts and posts <= set(completed)
        assert all(number == 1 for event, number in completed.items() if event in posts)


def test_messages_from_anybody_have_their_sender(every_kind: RunFolder) -> None:
    for record in every_kind.processes():
        events = record.events
        anybody = [row for row in range(len(events)) if events.flags[row] & 16 and events.operation[row] == 11]
        assert len(anybody) == 7
        assert {events.peer[row] for row in anybody} == {(record.rank - 1) % 4}


def lines_of(source: str, text: str) -> set[int]:
    lines = (Path(__file__).parent / "programs" / source).read_text().splitlines()
    return {number for number, line in enumerate(lines, 1) if text in line}


@pytest.mark.measured
@pytest.mark.parametrize("flags", [("-O0",), ("-O2", "-fomit-frame-pointer"), ("-O2", "-fno-omit-frame-pointer")])
@under_one_mpi
def test_the_slow_line_on_its_rank(mpi: Mpi, flags: tuple[str, ...]) -> None:
    import scalana

    report = scalana.analyze(mpi.record(4, mpi.compile("slow_rank.c", *flags)))
    first = report.findings[0]
    assert Path(first.file).name == "slow_rank.c"
    assert first.line in lines_of("slow_rank.c", "/* slow */")
    assert first.ranks == [2]


@pytest.mark.measured
@under_one_mpi
def test_without_debug_information_the_slow_function_is_told(mpi: Mpi) -> None:
    report = scalana.analyze(mpi.record(4, mpi.compile("slow_rank.c", "-g0", "-fno-inline")))
    first = report.findings[0]
    assert (Path(first.file).name, first.line, first.function, first.ranks) == ("program", 0, "refine", [2])
    assert any("compile with -g" in warning for warning in report.warnings)


@pytest.mark.measured
@pytest.mark.parametrize("how", ["program", "library"])
def test_a_program_that_calls_the_profiling_interface_itself(mpi: Mpi, how: str) -> None:
    names = [f"-D{name}=P{name}" for name in ("MPI_Init", "MPI_Sendrecv", "MPI_Allreduce", "MPI_Finalize")]
    if how == "program":
        program = mpi.compile("slow_rank.c", "-O2", *names)
    else:
        mpi.compile("slow_rank.c", "-O2", *names, "-Dmain=run", "-shared", "-fPIC", name="librun.so")
        starts = mpi.work / "starts.c"
        starts.write_text("int run(int, char **);\nint main(int argc, char **argv) { return run(argc, argv); }\n")
        program = mpi.compile(str(starts), f"-L{mpi.work}", "-Wl,--no-as-needed", "-lrun", f"-Wl,-rpath,{mpi.work}")
    folder = mpi.record(4, program)
    for record in RunFolder(folder).processes():
        assert calls_by_operation(record) == {"init": 1, "sendrecv": 30, "allreduce": 30, "finalize": 1}
    first = scalana.analyze(folder).findings[0]
    assert first.line in lines_of("slow_rank.c", "/* slow */") and first.ranks == [2]


@pytest.mark.parametrize("flags", [("-O0",), ("-O2", "-fomit-frame-pointer")])
@under_one_mpi
def test_calls_of_one_place_are_told_apart_by_their_callers(mpi: Mpi, flags: tuple[str, ...]) -> None:
    (record,) = RunFolder(mpi.record(1, mpi.compile("many_paths.c", *flags))).processes()
    calls: Counter[int] = Counter()
    for operation, path, count in zip(record.totals.operation, record.totals.path, record.totals.calls, strict=True):
        if BY_CODE[operation].name == "allreduce":
            calls[path] += count
    assert sorted(calls.values()) == [50, 80, 100, 200, 400]


@pytest.mark.measured
@under_one_mpi
def test_libraries_of_the_program_have_a_structure_too(mpi: Mpi) -> None:
    mpi.compile("library.c", "-shared", "-fPIC", name="libsmooth.so")
    program = mpi.compile("own_library.c", f"-L{mpi.work}", "-Wl,--no-as-needed", "-lsmooth", f"-Wl,-rpath,{mpi.work}")
    frame = scalana.analyze(mpi.record(1, program)).frame()
    inside = frame[frame["function"] == "smooth"]
    assert (inside["kind"] == "comp").any()  # a statement of its loop: from its source, not from samples alone
    assert inside["time_s"].sum() > 0.4
