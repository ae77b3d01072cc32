"""One job on two emulated hosts, each with its own name, network, clock and process numbers: one run, one report.

Hosts are made of namespaces (``tests/tools/hosts.py``), for which root is needed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from scalana.runtime.record import layout
from scalana.runtime.record.format import ProcessRecord
from tests.needs import torch_or_skip
from tests.scalana.command import command

torch_or_skip()
pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tests" / "tools" / "hosts.py"
PROGRAM = ROOT / "tests" / "jobs" / "programs" / "late_on_a_host.py"
RANKS_OF_A_HOST = PROGRAM.with_name("two_ranks.py")
OF_MPI = PROGRAM.with_name("late_of_mpi.py")
BYTES_TO_A_HOST = PROGRAM.with_name("bytes_to_a_host.py")
TORCHRUN = (
    "torchrun --nnodes 2 --node-rank $HOST_INDEX --nproc-per-node 2 --master-addr $HEAD_ADDR --master-port 29500 "
    f"{PROGRAM}"
)
"""What users type. It imports torch three times on each host, which is most of what such a test costs."""
FORKED = f"env -u RANK -u WORLD_SIZE NODE=$HOST_INDEX NODES=2 {sys.executable} {RANKS_OF_A_HOST}"
BY_VARIABLES = "RANK=$HOST_INDEX WORLD_SIZE=2 MASTER_ADDR=$HEAD_ADDR MASTER_PORT=29500"
"""As a PyTorchJob has them: of pods, not of ranks."""


def _lacks() -> str:
    """What hosts cannot be made without here, empty where they can."""
    if os.geteuid():
        return "emulated hosts need root"
    if not all(map(shutil.which, ("ip", "nsenter"))):
        return "emulated hosts need ip and nsenter"
    tried = subprocess.run(
        [sys.executable, str(TOOL), "--hosts", "2", "--limit", "20", "--", "true"], capture_output=True, text=True
    )
    return "" if tried.returncode == 0 else f"emulated hosts cannot be made here: {tried.stderr.strip()[-200:]}"


@pytest.fixture(scope="module", autouse=True)
def hosts() -> None:
    """Skip where none can be made, which the test run prints."""
    if reason := _lacks():
        pytest.skip(reason)


@dataclass(frozen=True)
class Outcome:
    """What a job on two hosts left behind."""

    code: int
    said: tuple[str, str]
    """What the command of each host wrote, without what hosts.py says."""
    folder: Path


def on_hosts(work: Path, line: str, *options: str, folder: str = "run") -> Outcome:
    """Run a line of shell on both hosts, in a folder in which ``scalana`` is this checkout's."""
    tools = work / "bin"
    tools.mkdir(parents=True)
    (tools / "scalana").write_text(f'#!/bin/sh\nexec {sys.executable} -m scalana "$@"\n')
    (tools / "torchrun").write_text(f'#!/bin/sh\nexec {sys.executable} -m torch.distributed.run "$@"\n')
    for tool in tools.iterdir():
        tool.chmod(0o755)
    environ = {
        **os.environ,
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "GLOO_SOCKET_IFNAME": "eth0",
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [sys.executable, str(TOOL), "--hosts", "2", "--limit", "240", *options, "--", "sh", "-c", line],
        cwd=work,
        env=environ,
        capture_output=True,
        text=True,
    )
    lines = [*done.stdout.splitlines(), *done.stderr.splitlines()]
    said = ["\n".join(one.partition("| ")[2] for one in lines if one.startswith(f"host{index}|")) for index in range(2)]
    return Outcome(done.returncode, (said[0], said[1]), work / folder)


def fault_of(program: Path) -> int:
    """The line that is late."""
    lines = program.read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith("# <- fault"))


def assert_named(report: dict[str, object], program: Path = PROGRAM) -> None:
    """The report names the planted line and rank, and the hosts of all ranks."""
    fault = fault_of(program)
    run, findings = report["run"], report["findings"]
    assert isinstance(run, dict) and isinstance(findings, list)
    assert (run["hosts"], run["host_of_rank"]) == (["host0", "host1"], [0, 0, 1, 1])
    assert findings[0]["root"]["line"] in (fault, fault - 1) and findings[0]["ranks"] == [2]
    assert not any("no record" in warning for warning in run["warnings"])


def test_a_shared_folder_and_a_start_on_each_host_some_seconds_apart(tmp_path: Path) -> None:
    found = on_hosts(tmp_path, f"scalana run -o run -- {TORCHRUN}", "--stagger", "2")
    assert found.code == 0, found.said
    assert_named(json.loads(Path(layout.report_file(found.folder, "json")).read_text()))
    assert "4 ranks on 2 hosts" in found.said[0] and "Rank 2 (host1)" in found.said[0]
    ours = [line for line in found.said[1].splitlines() if line.startswith("scalana")]  # torch says more at times
    assert len(ours) == 1 and "host0 reports" in ours[0]


def test_folders_of_their_own(tmp_path: Path) -> None:
    """Records cross the network."""
    (tmp_path / "own").mkdir()
    options = ("--private", str(tmp_path / "own"), "--keep", str(tmp_path / "kept"))
    found = on_hosts(tmp_path, f"{BY_VARIABLES} scalana run -o own/run -- {FORKED}", *options)
    assert found.code == 0, found.said
    head = Path(f"{tmp_path}/kept/host0{tmp_path}/own/run")
    assert_named(json.loads(Path(layout.report_file(head, "json")).read_text()))
    assert "sent to" in found.said[1] and "Nothing stands out" not in found.said[0]


def test_where_nothing_may_be_sent_each_start_says_how_to_put_folders_together(tmp_path: Path) -> None:
    """Hosts of one name have processes of equal numbers, too."""
    (tmp_path / "own").mkdir()
    options = ("--private", str(tmp_path / "own"), "--keep", str(tmp_path / "kept"), "--same-name", "trainer")
    line = f"{BY_VARIABLES} scalana run --no-report --collect no -o own/run -- {FORKED}"
    found = on_hosts(tmp_path, line, *options)
    assert found.code == 0, found.said
    folders = [f"{tmp_path}/kept/host{index}{tmp_path}/own/run" for index in range(2)]
    assert "scalana report run" in found.said[1]
    done = command("report", "--format", "json", *folders)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["run"]["ranks"] == 4 and report["findings"][0]["ranks"] == [2]
    assert not any("no record" in warning for warning in report["run"]["warnings"])


@pytest.mark.long
def test_another_run_in_the_folder_lets_no_host_wait_for_ever(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.txt").write_text("mine\n")
    meet = "touch at-$HOST_INDEX; until test -e at-0 -a -e at-1; do sleep 0.1; done"
    line = f"{BY_VARIABLES} scalana run --no-report -o run -- sh -c '{meet}; {sys.executable} -c pass'"
    found = on_hosts(tmp_path, line, folder="run-2")
    assert found.code == 0, found.said
    assert all("recording into run-2" in said for said in found.said)
    assert len(layout.record_files(found.folder)) == 2


@pytest.mark.long
def test_what_connections_between_hosts_move_is_in_the_record(tmp_path: Path) -> None:
    """As the kernel counts it: of each pair of addresses, all connections together, closed ones too."""
    line = f"scalana run --no-report -o run-$HOST_INDEX -- {sys.executable} {BYTES_TO_A_HOST}"
    found = on_hosts(tmp_path, line, "--rate", "100mbit")
    assert found.code == 0, found.said
    records = [ProcessRecord.read(file) for file in layout.record_files(tmp_path / "run-1")]
    (sockets,) = [record.meta["sockets"] for record in records if "sockets" in record.meta]
    own, other, nbytes, busy_us, longest_us, bytes_per_s, _ = sockets.split()
    assert (own, other) == ("10.77.0.2", "10.77.0.1")
    assert 4_000_000 <= int(nbytes) < 4_000_100  # the kernel counts begin and end of a connection, too
    assert 0 < int(longest_us) <= int(busy_us) and int(bytes_per_s) > 0


def test_a_host_that_is_lost_keeps_nobody_waiting(tmp_path: Path) -> None:
    """The plug of host 1 is pulled in the middle: the other one is ended, reports, and says what lacks."""
    (tmp_path / "own").mkdir()
    mark, pid = tmp_path / "under-way", tmp_path / "pid"
    run = f"STEPS=100000 UNDER_WAY={mark} exec scalana run -o own/run -- {FORKED}"
    line = f"test $HOST_INDEX = 1 || echo $$ > {pid}; export {BY_VARIABLES}; {run}"
    end = f"sleep 2; kill -TERM $(cat {pid})"
    options = ("--private", str(tmp_path / "own"), "--lose", f"host1@{mark}", "--at", str(mark), "host0", end)
    found = on_hosts(tmp_path, line, *options)
    assert "no record of ranks 2, 3 of 4" in " ".join(found.said[0].split())
    assert "without the records of" in found.said[0]
    assert "Rank 2 never" not in found.said[0] and "Rank 3 never" not in found.said[0]


@pytest.mark.parametrize(
    ("mpi", "options"),
    [
        ("openmpi", "--allow-run-as-root -x MINE=1 -H host0:2,host1:2"),
        ("mpich", "-launcher ssh -hosts host0:2,host1:2"),
    ],
)
def test_one_launcher_of_mpi_for_both_hosts(tmp_path: Path, mpi: str, options: str) -> None:
    """It reaches the other host by ssh, and starts a shell for each rank; a script starts it."""
    folders = os.environ.get("SCALANA_TEST_MPI", "").split(os.pathsep)
    folder = next((folder for folder in folders if Path(folder).parent.name == mpi), None)
    if folder is None:
        pytest.skip(f"no {mpi} in SCALANA_TEST_MPI")
    ranks = f"sh -c 'exec {folder}/python {OF_MPI}'"
    (tmp_path / "job.sh").write_text(f"true\nmpirun {options} -n 4 {ranks}\n")
    launch = f"PATH={folder}:$PATH scalana run --no-report -o run -- sh job.sh"
    found = on_hosts(tmp_path, launch, "--head", "--raw")
    assert found.code == 0
    assert layout.launched_hosts(found.folder) == ["host1"]
    report = json.loads(command("report", "--format", "json", found.folder).stdout)
    assert_named(report, OF_MPI)
