"""Whether all functions and loops of C and C++ sources are in the structure graph, and what reading them costs.

    python tests/benchmarks/structure_coverage.py FOLDER SOURCE ... [-- FLAGS]

The referee is the compiler: debug information of a build without optimisation for functions, preprocessed text for
loops (tests/frontend/cpp/referee.py). Counted is what stands in files below FOLDER. Nothing is taken from the cache.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from scalana.frontend.build import build_psg
from scalana.frontend.cpp.build import Cpp
from scalana.frontend.cpp.cache import Cache
from scalana.frontend.front_end import Options
from scalana.graphs.structure.psg import VertexKind
from tests.frontend.cpp import referee


def main(words: list[str]) -> int:
    """Print what is missing, and the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", help="below which files count")
    parser.add_argument("sources", nargs="+", metavar="SOURCE")
    cut = words.index("--") if "--" in words else len(words)
    options, flags = parser.parse_args(words[:cut]), words[cut + 1 :]
    below, sources = os.path.abspath(options.folder), [os.path.abspath(source) for source in options.sources]
    loops: Counter[referee.Line] = Counter()
    functions: dict[referee.Line, str] = {}
    for source in sources:
        loops |= referee.loops(source, flags, below)
        functions.update(referee.functions(source, flags, below))
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        psg = build_psg(sources, using=[Cpp(Options(flags=flags), cache=Cache(folder))])
        cold = time.perf_counter() - start
        start = time.perf_counter()
        build_psg(sources, using=[Cpp(Options(flags=flags), cache=Cache(folder))])
        warm = time.perf_counter() - start
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    ours = {(v.place.file, v.place.line, v.place.column) for v in psg.walk() if v.kind is VertexKind.LOOP}
    here = Counter((file, line) for file, line, _ in ours)
    known = {(v.place.file, v.place.line) for v in psg.walk() if v.kind is VertexKind.FUNCTION}
    lost = {key: number - here[key] for key, number in loops.items() if number > here[key]}
    absent = {key: name for key, name in functions.items() if key not in known}
    for (file, line), number in sorted(lost.items()):
        print(f"missing: {number} loop(s) at {file}:{line}")
    for (file, line), name in sorted(absent.items()):
        print(f"missing: function {name} at {file}:{line}")
    print(f"functions {len(functions)} (missing {len(absent)})")
    print(f"loops {sum(loops.values())} (missing {sum(lost.values())})")
    print(f"{len(psg)} vertices, {cold:.2f} s (again, from the cache: {warm:.2f} s), {peak / 1024:.0f} MB")
    for warning in psg.warnings[:5]:
        print("warning:", warning)
    return 1 if lost or absent else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
