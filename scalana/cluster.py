"""Records read and put together by the workers of a Dask cluster (``--scheduler ADDRESS``, an optional extra).

The workers read blocks of record files and put each block together; what they send is merged here, and analysed here.
The result is the same as without a cluster, to the last digit, but for the productive share of the wall time: what
attempts of the job took is not read.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from scalana.errors import ClusterError
from scalana.version import __version__

if TYPE_CHECKING:
    from scalana.graphs.progress.attempt_times import Attempt
    from scalana.graphs.readers.columns.gather import Gathered
    from scalana.graphs.readers.folder.native_frames import Frames, Symbols
    from scalana.graphs.readers.folder.run_folder import RunFolder
    from scalana.graphs.readers.processes.rank_selection import RankRecords

CONNECT_S = 10.0
"""How long to wait for a scheduler to answer, and for its first worker."""
BLOCKS_PER_THREAD = 4
"""Blocks for every thread of a worker, so that slow ones don't hold up the rest."""
OPTION = "--scheduler"
"""By which an address is given on the command line."""


class Cluster:
    """A connection to a Dask scheduler, to be closed in the end.

    Raises:
        ClusterError: Dask is not installed, or nobody answers at the address, or there are no workers.
    """

    def __init__(self, address: str) -> None:
        try:
            from distributed import Client
        except ImportError as error:
            raise ClusterError(f"{OPTION} needs Dask: pip install 'scalana[dask]'") from error
        self._where = f"{OPTION} {address}"
        for name in ("distributed", "tornado", "bokeh"):
            logging.getLogger(name).setLevel(logging.CRITICAL)  # what goes wrong is told by an exception
        try:
            self._client = Client(address, timeout=CONNECT_S, set_as_default=False)
        except Exception as error:
            raise ClusterError(f"{self._where}: no Dask scheduler answers ({_brief(error)})") from error
        try:
            self._client.wait_for_workers(1, timeout=CONNECT_S)
        except Exception as error:
            self._client.close(CONNECT_S)
            raise ClusterError(f"{self._where}: the scheduler has no workers") from error

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._client.close(CONNECT_S)

    def read(
        self, folder: RunFolder, symbols: Symbols, done: Callable[[str], None]
    ) -> tuple[RankRecords, Gathered, list[Attempt]]:
        """Read a run folder: a :data:`~scalana.graphs.ppg.Reader`. What attempts did is not read.

        Raises:
            ClusterError: a worker cannot run this version of scalana, or does not see the folder.
            RecordError: not one record can be read.
        """
        from scalana.graphs.readers.columns import blocks
        from scalana.graphs.readers.columns.gather import on_one_axis
        from scalana.graphs.readers.folder.native_frames import source_frames
        from scalana.graphs.readers.folder.run_folder import in_order
        from scalana.graphs.readers.processes.chains import choose_of_chain
        from scalana.runtime.record.format import RecordError

        done("reading records")
        self._check_workers()
        files = [os.path.abspath(file) for file in folder.record_files()]
        held = [self._client.submit(blocks.read_block, part, pure=False) for part in self._parts(files)]
        outlines = self._results([self._client.submit(blocks.outline, one, pure=False) for one in held], folder)
        above, shown = os.path.abspath(folder.path), os.fspath(folder.path)
        folder.troubles = [text.replace(above, shown, 1) for one in outlines for text in one.troubles]
        records = in_order(record for one in outlines for record in one.records)
        if not records:
            why = "; ".join(folder.troubles) or "no records in it"
            raise RecordError(f"{folder.path}: {why}")
        chosen = choose_of_chain(records, folder.chain, folder.launch)
        done("gathering")
        offsets: dict[tuple[str, str], set[int]] = {}
        for one in outlines:
            for module, some in one.offsets.items():
                offsets.setdefault(module, set()).update(some)
        (frames,) = self._client.scatter([_plain(source_frames(offsets, symbols))], broadcast=True, hash=False)
        parts = [
            self._client.submit(blocks.collect_block, one, share, frames, pure=False)
            for one, share in zip(held, blocks.shares(chosen, outlines), strict=True)
            if share.process
        ]
        return chosen, on_one_axis(blocks.merge(self._results(parts, folder))), []

    def _parts(self, files: Sequence[str]) -> list[Sequence[str]]:
        """The files in blocks of equal length, some for every thread."""
        threads = sum(self._client.nthreads().values())
        count = max(1, min(len(files), BLOCKS_PER_THREAD * threads))
        edges = [number * len(files) // count for number in range(count + 1)]
        return [files[first:last] for first, last in zip(edges[:-1], edges[1:], strict=True)]

    def _check_workers(self) -> None:
        """Every worker has to have this version of scalana."""
        answers = self._client.run(_worker_version, on_error="return")
        for worker, answer in answers.items():
            if isinstance(answer, BaseException):
                raise ClusterError(f"{self._where}: worker {worker} cannot import scalana ({_brief(answer)})")
            if answer != __version__:
                raise ClusterError(
                    f"{self._where}: worker {worker} has scalana {answer}, this is {__version__}: install one version"
                )

    def _results(self, futures: list[Any], folder: RunFolder) -> list[Any]:
        try:
            return list(self._client.gather(futures))
        except FileNotFoundError as error:
            raise ClusterError(
                f"{self._where}: a worker cannot find {error}: put the run folder on a file system that all workers "
                "share, at the same path"
            ) from error
        except Exception as error:
            raise ClusterError(f"{self._where}: a worker failed on {folder.path} ({_brief(error)})") from error


def _worker_version() -> str:
    """What a worker says of itself."""
    from scalana.graphs.readers.columns import blocks  # noqa: F401  what it will need

    return __version__


def _plain(frames: Frames) -> Frames:
    """Frames without classes that workers may not be able to import."""
    from scalana.graphs.readers.folder.native_frames import PlainFrame

    return {
        module: {
            offset: [PlainFrame(frame.file, frame.name, frame.first_line, frame.line, frame.column) for frame in found]
            for offset, found in by_offset.items()
        }
        for module, by_offset in frames.items()
    }


def _brief(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
