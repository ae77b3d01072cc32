"""What recording does to a job of any kind: seconds with and without it, in turns, and bytes of the record.

    python tests/benchmarks/command_overhead.py [--pairs N] [--rate HZ] [--timer REGEX] -- mpirun -n 2 ./app ...

Three figures of each run are compared: wall seconds of the whole command, start-up of the launcher and of scalana
included; CPU seconds (user and system) of all its processes, which other users of the machine disturb less; and what
the program says of itself, if REGEX finds a number in its output, in its first group.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from scalana.graphs.readers.folder.run_folder import RunFolder

ROOT = Path(__file__).resolve().parents[2]
Run = dict[str, float]


def run(words: list[str], timer: str | None) -> Run:
    """Run a command to its end.

    Raises:
        SystemExit: it failed, or the timer is not in its output.
    """
    with tempfile.TemporaryFile("w+") as output:
        start = time.perf_counter()
        process = subprocess.Popen(words, stdout=output, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        found = {"wall": time.perf_counter() - start, "CPU": usage.ru_utime + usage.ru_stime}
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read()
    if process.returncode:
        raise SystemExit(f"{' '.join(words)}: exit code {process.returncode}\n{text[-2000:]}")
    if timer is not None:
        match = re.search(timer, text)
        if match is None:
            raise SystemExit(f"{timer!r} is not in the output:\n{text[-2000:]}")
        found["own timer"] = float(match.group(1))
    return found


def ratios(pairs: list[tuple[Run, Run]], figure: str) -> tuple[float, float, float]:
    """Median, least and greatest of with / without."""
    found = [recorded[figure] / plain[figure] for plain, recorded in pairs]
    return statistics.median(found), min(found), max(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=7, help="runs with and without, in turns (default: 7)")
    parser.add_argument("--rate", type=float, default=200, help="samples a second (default: 200)")
    parser.add_argument("--timer", metavar="REGEX", help="finds the seconds that the program prints of itself")
    parser.add_argument("command", nargs="+", help="the job, after --")
    options = parser.parse_args()
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    os.environ["PYTHONPATH"] = path
    pairs: list[tuple[Run, Run]] = []
    with tempfile.TemporaryDirectory() as work:

        def recorded(number: int) -> Run:
            words = [sys.executable, "-m", "scalana", "run", "-o", f"{work}/{number}", "--no-report"]
            return run([*words, "--rate", str(options.rate), "--", *options.command], options.timer)

        recorded(-1)  # compiles the recorder for this MPI, reads files into memory
        for number in range(options.pairs):
            # The order turns, so that what slowly changes on the machine favours nobody.
            if number % 2:
                after = recorded(number)
                pairs.append((run(options.command, options.timer), after))
            else:
                before = run(options.command, options.timer)
                pairs.append((before, recorded(number)))
        records = RunFolder(f"{work}/{options.pairs - 1}")
        ranks = len({record.rank for record in records.processes()})
        size = sum(Path(file).stat().st_size for file in records.record_files())
    for figure in pairs[0][0]:
        plain, with_it = (statistics.median(part[figure] for part in side) for side in zip(*pairs, strict=True))
        median, least, most = ratios(pairs, figure)
        print(
            f"{figure:10} without {plain:7.3f} s  with {with_it:7.3f} s  overhead {100 * (median - 1):6.2f} % "
            f"(from {100 * (least - 1):.2f} to {100 * (most - 1):.2f} %)"
        )
    hours = pairs[-1][1]["wall"] / 3600
    print(
        f"{ranks} ranks, {len(pairs)} pairs, {options.rate:g} Hz, {size / ranks / hours / 1e6:.1f} MB per rank and hour"
    )


if __name__ == "__main__":
    main()
