"""Analyses the last steps of a run that goes on, again and again: what does not change meanwhile is kept.

That is the structure of the program, to which each look adds what samples show for the first time, and the functions of
native code. What a look costs then depends on the last steps alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from scalana import analysis_home, api

if TYPE_CHECKING:
    from scalana.detectors.when.rank_work import RankWork
    from scalana.graphs.attribution.callpaths import Placer
    from scalana.graphs.attribution.placing import FrontEnds, Parse
    from scalana.graphs.readers.folder.native_frames import SourceFrame, Symbols
    from scalana.graphs.structure.psg import PSG


class LastSteps:
    """Analyses one run."""

    def __init__(self) -> None:
        analysis_home.require()
        from scalana.frontend.build import structure_of_run
        from scalana.graphs.readers.folder.moved_sources import NOT_MOVED
        from scalana.kept_frames import KeptFrames, symbols

        self._structure = KeptStructure(lambda *of_run: structure_of_run([], *of_run))
        self._placer = KeptPlacer()
        self._frames = KnownFrames(lambda *asked: symbols([], KeptFrames(""), NOT_MOVED, *asked))

    def analyze(self, folder: str, steps: int, earlier: RankWork | None = None) -> api.Report:
        """The causes in the last steps.

        Args:
            folder: a run folder of the last part of the run.
            steps: how many steps.
            earlier: what ranks worked in steps before.

        Raises:
            RunDataError: its records cannot be read.
        """
        from scalana.detectors.facts import Outside
        from scalana.graphs.ppg import build_ppg
        from scalana.graphs.readers.folder.run_folder import RunFolder

        with api.no_collections(), api.data_errors(folder):
            ppg = build_ppg(
                RunFolder(folder), front_end=self._structure, symbols=self._frames, make_placer=self._placer
            )
            outside = Outside(earlier_work=earlier)
            return api.Report(api.analyze_last(ppg, steps, outside, causes_only=True))


class KeptStructure:
    """The structure of a program, which is read again only where the run was seen in other programs or files: a front
    end of :func:`~scalana.graphs.ppg.build_ppg`.

    Args:
        read: reads it.
    """

    def __init__(self, read: FrontEnds) -> None:
        self._read = read
        self._of: tuple[tuple[str, ...], tuple[str, ...]] | None = None
        self._seen: set[str] = set()
        self._made: tuple[PSG, Parse] | None = None

    def __call__(self, programs: Sequence[str], lib_dirs: Sequence[str], seen: Collection[str]) -> tuple[PSG, Parse]:
        """The graph, with all that was added to it so far, and the parser that goes with it."""
        of = tuple(programs), tuple(lib_dirs)
        if self._made is None or of != self._of or not self._seen.issuperset(seen):
            self._of, self._seen = of, self._seen.union(seen)
            self._made = self._read(programs, lib_dirs, self._seen)
        return self._made


class KeptPlacer:
    """Finds the vertices of call paths, each once, as long as structure and folders are the same."""

    def __init__(self) -> None:
        self._of: tuple[object, ...] = ()
        self._made: Placer | None = None

    def __call__(
        self, psg: PSG, parse: Parse, *, lib_dirs: Iterable[str], own: Iterable[str], models: Iterable[str]
    ) -> Placer:
        """What a :class:`~scalana.graphs.attribution.callpaths.Placer` of the same finds."""
        from scalana.graphs.attribution.callpaths import Placer

        libraries, owned, modelled = (tuple(sorted(some)) for some in (lib_dirs, own, models))
        of = psg, parse, libraries, owned, modelled
        if self._made is None or of != self._of:
            self._of = of
            self._made = Placer(psg, parse, lib_dirs=libraries, own=owned, models=modelled)
        return self._made


class KnownFrames:
    """Functions and lines of native code, each looked up once: symbols of
    :func:`~scalana.graphs.ppg.build_ppg`.

    Args:
        look_up: finds them in a binary.
    """

    def __init__(self, look_up: Symbols) -> None:
        self._look_up = look_up
        self._known: dict[tuple[str, str], dict[int, Sequence[SourceFrame]]] = {}

    def __call__(self, path: str, build_id: str, offsets: Collection[int]) -> Mapping[int, Sequence[SourceFrame]]:
        """Those at some offsets of a program or library; offsets where there is nothing are left out."""
        known = self._known.setdefault((path, build_id), {})
        new = [offset for offset in offsets if offset not in known]
        if new:
            known.update(dict.fromkeys(new, ()))
            known.update(self._look_up(path, build_id, new))
        return {offset: known[offset] for offset in offsets if known[offset]}
