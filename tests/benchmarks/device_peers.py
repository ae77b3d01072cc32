"""What scalana, HTA and TraceLens say about the same traces of devices: of emulated jobs whose fault is known, and of a
folder.

    python tests/benchmarks/device_peers.py PEERS [FOLDER ...]

``PEERS`` is the Python of an environment in which HTA is installed, and TraceLens. Each of them is asked for its
stragglers as its documentation has it; what they name is compared with the rank that is at fault. Of a folder, in which
the rank is behind ``rank`` or ``worker`` in the names of files, only the answers are shown.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import scalana  # noqa: E402
from scalana.importers.registry import import_traces  # noqa: E402
from tests.detectors.device.test_emulated import CASES  # noqa: E402
from tests.tools.device_job import MS, US, Fault, Job  # noqa: E402

JOBS = {name: case[0] for name, case in CASES.items()} | {
    "initial skew": Job(fault=Fault(2, starts_late_ns=20 * MS)),
    "hidden communication": Job(fault=Fault(1, kernel_ns=400 * US, less_ns=400 * US)),
    "nothing, 2 % of noise": Job(noise=0.02),
}
HARMLESS = ("hidden communication", "nothing, 2 % of noise")
ASK = """
import json, logging, sys, warnings
warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)
files = {int(rank): file for rank, file in json.loads(sys.argv[2]).items()}
try:
    if sys.argv[1] == "HTA":
        from hta.trace_analysis import TraceAnalysis
        answer = [int(rank) for rank in TraceAnalysis(trace_files=files, trace_dir="/").get_potential_stragglers()]
        said = f"ranks {answer}"
    else:
        from TraceLens import NcclAnalyser
        table = NcclAnalyser(list(files.values()), len(files)).build_df_straggler_summary()
        answer = [int(table["rank"][0])]
        said = f"rank {answer[0]}, last in {table['pct_arrived_last'][0]:.0f} %"
except Exception as error:
    answer, said = None, f"fails: {type(error).__name__}: {error}"[:90]
print("\\n" + json.dumps([answer, said]))
"""


def files_of(folder: Path) -> dict[int, str]:
    """The traces in a folder, by rank."""
    found = {}
    for file in sorted(folder.rglob("*.json*")):
        number = re.search(r"(?:rank|worker)[-_]?(\d+)", file.name)
        if number:
            found[int(number[1])] = str(file)
    return dict(sorted(found.items()))


def peer(python: str, tool: str, files: dict[int, str]) -> tuple[list[int] | None, str]:
    """The ranks that a tool names, None if it fails, and how it says it."""
    asked = subprocess.run([python, "-c", ASK, tool, json.dumps(files)], capture_output=True, text=True)
    answer, said = json.loads(asked.stdout.splitlines()[-1]) if asked.stdout.strip() else (None, "dies")
    return answer, said


def verdict(answer: list[int] | None, fault: list[int] | None) -> str:
    """What an answer is worth."""
    if answer is None or fault is None:
        return ""
    if answer == fault:
        return " → **right**"
    return " → among them" if fault and set(fault) < set(answer) else " → wrong" if answer else " → says nothing"


def ours(files: dict[int, str], most: int = 1) -> tuple[list[int], str]:
    """The ranks of the first findings, and what is said of them."""
    with tempfile.TemporaryDirectory() as folder:
        import_traces(list(files.values()), f"{folder}/run", folder)
        findings = scalana.analyze(f"{folder}/run").findings[:most]
    told = []
    for one in findings:
        why = one.evidence.as_dict().get("cause") or one.evidence.as_dict().get("slower") or one.function
        told.append(f"rank {', '.join(map(str, one.ranks))}: {one.kind}, {why}, saves {one.saving_s * 1e3:.1f} ms")
    return [rank for one in findings for rank in one.ranks], "; ".join(told) or "nothing"


def row(name: str, files: dict[int, str], fault: list[int] | None, python: str) -> list[str]:
    """One row of the table."""
    cells: list[Any] = [name, "not known" if fault is None else f"rank {fault[0]}" if fault else "nothing"]
    for answer, said in (
        peer(python, "HTA", files),
        peer(python, "TraceLens", files),
        ours(files, 1 if fault is not None else 3),
    ):
        cells.append(said + verdict(answer, fault))
    return cells


def main() -> None:
    """Print the table."""
    python, folders = sys.argv[1], sys.argv[2:]
    heads = "trace", "at fault", "HTA", "TraceLens", "scalana"
    print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads), flush=True)
    for name, job in JOBS.items():
        with tempfile.TemporaryDirectory() as folder:
            files = files_of(job.write(Path(folder)))
            fault = [] if name in HARMLESS else [job.fault.rank]
            print("| " + " | ".join(row(name, files, fault, python)) + " |", flush=True)
    for folder in folders:
        print("| " + " | ".join(row(Path(folder).name, files_of(Path(folder)), None, python)) + " |", flush=True)


if __name__ == "__main__":
    main()
