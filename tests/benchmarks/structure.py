"""What static structure costs: parsing, building, contracting, placing call paths.

python tests/benchmarks/structure.py            # this environment's networkx, and 100,000 synthetic paths
python tests/benchmarks/structure.py PATH ...   # other files or folders
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from scalana.frontend.build import build_psg
from scalana.frontend.front_end import files_below
from scalana.frontend.python.build import ENDINGS, Python, Sources
from scalana.graphs.attribution.callpaths import FrameRef, Placer
from scalana.graphs.structure.contraction import contract
from scalana.graphs.structure.psg import PSG, VertexKind

PATHS = 100_000


def timed(what: str, start: float, detail: str) -> None:
    """Print one line of the result."""
    print(f"{what:<12}{time.process_time() - start:8.2f} s CPU   {detail}")


def synthetic_tree(psg: PSG, paths: int) -> tuple[list[int], list[FrameRef]]:
    """An interned tree of call paths that wander through the files of a graph, 30 frames deep at most."""
    rng = random.Random(1)
    functions = [v.place for v in psg.vertices if v.kind is VertexKind.FUNCTION and v.place.end_line > v.place.line]
    functions = rng.sample(functions, min(len(functions), 200))
    parents, frames, depth = [0], [FrameRef("", "", 0, 0)], [0]
    while len(parents) < paths:
        parent = rng.randrange(max(0, len(parents) - 500), len(parents))
        if depth[parent] >= 30:
            continue
        if parent and rng.random() < 0.7:  # most paths differ from another one in the innermost line only
            place_of = frames[parent]
            parent = parents[parent]
            line = place_of.line + rng.randint(0, 3)
            parents.append(parent)
            frames.append(place_of._replace(line=line))
            depth.append(depth[parent] + 1)
            continue
        place = rng.choice(functions)
        line = rng.randint(place.line, place.end_line)
        parents.append(parent)
        frames.append(FrameRef(place.file, place.name, place.line, line, rng.choice((-1, 4, 8))))
        depth.append(depth[parent] + 1)
    return parents, frames


def main(paths: list[str]) -> None:
    """Measure each step once."""
    if not paths:
        import networkx

        paths = [str(Path(networkx.__file__).parent)]
    files = [file for path in paths for file in (files_below(path, ENDINGS) if Path(path).is_dir() else [path])]
    sources = Sources()
    start = time.process_time()
    lines = sum(structure.module.place.end_line for file in files if (structure := sources.parse(file)) is not None)
    timed("parse", start, f"{len(files)} files, {lines} lines")
    start = time.process_time()
    psg = build_psg(paths, using=[Python(sources=sources)])
    timed("build", start, f"{len(psg)} vertices")
    start = time.process_time()
    timed("contract", start, f"{len(contract(psg).psg)} vertices")
    parents, frames = synthetic_tree(psg, PATHS)
    placer = Placer(psg, sources.parse)
    start, before = time.process_time(), len(psg)
    placer.place_tree(parents, frames)
    timed("place", start, f"{PATHS} random paths, {len(psg) - before} vertices added")
    start = time.process_time()
    placer.place_tree(parents, frames)
    timed("again", start, "the same paths, of another rank")


if __name__ == "__main__":
    main(sys.argv[1:])
