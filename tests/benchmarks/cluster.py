"""What a Dask cluster takes off an analysis: the CPU seconds of reading and gathering, here and on two local workers.

Run: python -m tests.benchmarks.cluster RUN [RUN ...]

For every run folder (``python -m tests.tools.generate_run DIR RANKS`` writes one): CPU seconds of this process up to
the gathered columns, the CPU seconds of all workers for them, what they send, and whether the report is the same.
Every way is measured twice, and the second time counts: the first one compiles.
"""

from __future__ import annotations

import argparse
import os
import pickle
import time

from distributed import Client, LocalCluster

import scalana
from scalana.cluster import Cluster
from scalana.graphs.ppg import read_here
from scalana.graphs.readers.columns import blocks
from scalana.graphs.readers.folder.run_folder import RunFolder


def cpu_s() -> float:
    """CPU seconds of this process so far."""
    return time.process_time()


def sent_bytes(folder: str, workers: int) -> int:
    """Bytes of the blocks of a run, as workers send them."""
    files = [os.fspath(file) for file in RunFolder(folder).record_files()]
    size = 0
    for number in range(4 * workers):
        held = blocks.read_block(files[number :: 4 * workers])
        ranks = [record.rank for record in held.records]
        share = blocks.Share(list(range(len(ranks))), list(range(len(ranks))), ranks, [True] * len(ranks))
        size += len(pickle.dumps(blocks.collect_block(held, share, {}), protocol=5))
    return size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="RUN")
    runs = parser.parse_args().runs
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as local, Client(local) as client:
        with Cluster(local.scheduler_address) as cluster:
            for run in runs:
                for _ in range(2):
                    start, wall = cpu_s(), time.perf_counter()
                    read_here(RunFolder(run), lambda *_: {}, lambda what: None)
                    here, here_wall = cpu_s() - start, time.perf_counter() - wall
                    before = sum(client.run(cpu_s).values())
                    start, wall = cpu_s(), time.perf_counter()
                    cluster.read(RunFolder(run), lambda *_: {}, lambda what: None)
                    there, there_wall = cpu_s() - start, time.perf_counter() - wall
                    workers = sum(client.run(cpu_s).values()) - before
                same = scalana.analyze(run).to_json() == scalana.analyze(run, scheduler=cluster).to_json()
                print(
                    f"{run}: here {here:.2f} CPU s ({here_wall:.2f} s); with two workers {there:.2f} CPU s here and "
                    f"{workers:.2f} CPU s there ({there_wall:.2f} s), {sent_bytes(run, 2) / 1e6:.0f} MB sent; "
                    f"reports {'the same' if same else 'DIFFER'}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
