"""C and C++ programs in a few lines, and their structure as an outline: what the tests of this folder compare."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import pytest

from scalana.frontend.build import build_psg
from scalana.frontend.cpp.build import Cpp
from scalana.frontend.cpp.cache import Cache
from scalana.frontend.cpp.source.clang import ClangMissing, bindings
from scalana.frontend.front_end import Options
from scalana.graphs.structure.psg import PSG
from tests.frontend.outline import write


def libclang_is_there() -> bool:
    """Whether sources can be parsed here."""
    try:
        bindings()
    except ClangMissing:
        return False
    return True


needs_libclang = pytest.mark.skipif(not libclang_is_there(), reason="libclang is not installed")


def graph(folder: Path, source: str, *flags: str, name: str = "main.cpp", uncalled: bool = False, **files: str) -> PSG:
    """The graph of one source (and of others, by name with ``_`` for the dot); parsed in this process, kept nowhere."""
    others = {other.replace("__", "/").replace("_", "."): text for other, text in files.items()}
    write(folder, {name: source, **others})
    sources = [folder / n for n in (name, *others) if not n.endswith((".h", ".hpp"))]
    return build(sources, flags, uncalled=uncalled)


def build(
    sources: Sequence[Path],
    flags: Sequence[str] | None = (),
    *,
    cache: Cache | None = None,
    workers: int | None = 0,
    uncalled: bool = False,
    seen: Collection[str] | None = None,
    **limits: int,
) -> PSG:
    """The graph of files, by this front end alone; kept nowhere and parsed in this process, if not told otherwise."""
    nowhere = Cache("/dev/null/nowhere")
    cpp = Cpp(Options(flags=flags, seen=seen), cache=nowhere if cache is None else cache, workers=workers)
    return build_psg(sources, using=[cpp], uncalled=uncalled, **limits)
