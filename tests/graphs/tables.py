"""Tables of events and samples, written by hand in milliseconds."""

from __future__ import annotations

import numpy as np

from scalana.graphs.readers.folder.records import Events, Samples
from scalana.runtime.operations import BY_NAME

MS = 1_000_000


def make_events(*rows: dict) -> Events:
    """Events from dictionaries; times in ms. Unless said otherwise an event is blocking, in communicator 0."""
    defaults = {
        "process": 0, "thread": 0, "op": "allreduce", "communicator": 0, "seq": 0, "peer": -1, "tag": 0, "nbytes": 0,
        "flags": 1, "path": 0, "completes": -1, "done": -1, "done_cpu": -1,
    }  # fmt: skip
    full = [{**defaults, **row} for row in rows]

    def column(key, scale=1):
        return np.array([round(row[key] * scale) if row[key] != -1 else -1 for row in full], np.int64)

    cpu_enter = np.array([round(row.get("cpu", row["enter"]) * MS) for row in full], np.int64)
    cpu_exit = np.array([round(row.get("cpu_exit", row.get("cpu", row["enter"])) * MS) for row in full], np.int64)
    return Events(
        process=column("process"),
        identity=np.arange(1, len(full) + 1, dtype=np.int64),
        thread=column("thread"),
        operation=np.array([BY_NAME[row["op"]].code for row in full], np.int64),
        communicator=column("communicator"),
        seq=column("seq"),
        peer=column("peer"),
        tag=column("tag"),
        nbytes=column("nbytes"),
        flags=column("flags"),
        enter_ns=np.array([round(row["enter"] * MS) for row in full], np.int64),
        exit_ns=np.array([round(row["exit"] * MS) for row in full], np.int64),
        cpu_enter_ns=cpu_enter,
        cpu_exit_ns=cpu_exit,
        path=column("path"),
        completes=column("completes"),
        done_ns=column("done", MS),
        done_cpu_ns=column("done_cpu", MS),
    )


def make_samples(*rows: tuple) -> Samples:
    """Samples from (thread, ms, path, cpu ms, state[, core wait ms]), in order."""
    wide = [(*row, 0)[:6] for row in rows]
    thread, time, path, cpu, state, wait = zip(*wide, strict=True) if wide else ([], [], [], [], [], [])
    return Samples(
        np.array(thread, np.int64),
        np.array([round(t * MS) for t in time], np.int64),
        np.array(path, np.int64),
        np.array([round(c * MS) for c in cpu], np.int64),
        np.array([round(w * MS) for w in wait], np.int64),
        np.array(state, np.int64),
    )
