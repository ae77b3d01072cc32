"""What it takes to import a large trace, and to read it by parsers of JSON: seconds of CPU, and memory at most.

Run: python -m tests.benchmarks.import_trace [GB [TRACE]]

A trace (by default one of an emulated rank) is repeated, later each time, until the file is as large as is asked for.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.tools.device_job import Job  # noqa: E402

PARSERS = {
    "this importer's stream": (
        "from scalana.importers import json_stream\nn = 0\ndef take(piece):\n    global n\n    n += len(piece)\n"
        "json_stream.read(open(path, 'rb'), path, take)"
    ),
    "json, at once": "import json\nn = len(json.load(open(path))['traceEvents'])",
    "orjson, at once": "import orjson\nn = len(orjson.loads(open(path, 'rb').read())['traceEvents'])",
    "ijson (yajl2_c)": (
        "import ijson\nn = sum(1 for _ in ijson.items(open(path, 'rb'), 'traceEvents.item', use_float=True))"
    ),
    "scalana import": (
        "import tempfile\nfrom scalana.importers.registry import import_traces\nn = 0\n"
        "import_traces([path], tempfile.mkdtemp(), '.')"
    ),
}
"""Programs that count the events of a file."""
_MEASURE = """
import resource, sys
path = sys.argv[1]
{}
used = resource.getrusage(resource.RUSAGE_SELF)
print(n, used.ru_utime + used.ru_stime, used.ru_maxrss // 1024)
"""


def write_large(trace: dict[str, Any], file: Path, size: float) -> int:
    """Write a trace as often as it takes to make so many bytes; returns the number of events."""
    timed = [event for event in trace["traceEvents"] if "ts" in event]
    first = min(event["ts"] for event in timed)
    length = max(event["ts"] + event.get("dur", 0) for event in timed) - first
    written = events = round_ = 0
    with file.open("w") as out:
        head = {key: value for key, value in trace.items() if key != "traceEvents"}
        out.write(json.dumps(head)[:-1] + ', "traceEvents": [\n')
        while written < size:
            parts = []
            for event in timed:
                arguments = dict(event.get("args", {}))
                if "correlation" in arguments:
                    arguments["correlation"] += round_ * 10**7
                moved = {**event, "ts": event["ts"] + round_ * length, "args": arguments}
                parts.append(json.dumps(moved, indent=2))
            text = (",\n" if round_ else "") + ",\n".join(parts)
            written += len(text)
            events += len(parts)
            round_ += 1
            out.write(text)
        out.write("\n]}\n")
    return events


def main() -> None:
    """Print a row for each parser."""
    size = float(sys.argv[1]) * 1e9 if len(sys.argv) > 1 else 0.1e9
    trace = json.load(gzip.open(sys.argv[2])) if len(sys.argv) > 2 else Job(ranks=2, steps=50).traces()[0]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rank0.json"
        events = write_large(trace, file, size)
        print(f"{file.stat().st_size / 1e9:.2f} GB, {events:,} events\n")
        print("| | CPU s | MB |\n|---|---:|---:|")
        for name, program in PARSERS.items():
            command = [sys.executable, "-c", _MEASURE.format(program), str(file)]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                print(f"| {name} | failed: {done.stderr.strip().splitlines()[-1]} | |")
                continue
            _, seconds, memory = done.stdout.split()
            print(f"| {name} | {float(seconds):.1f} | {memory} |", flush=True)


if __name__ == "__main__":
    main()
