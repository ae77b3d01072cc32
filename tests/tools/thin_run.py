"""A recorded MPI run as it would be had its ranks made more calls than can be written one by one.

Run: python -m tests.tools.thin_run FROM TO LEVEL

One in 2^LEVEL calls is kept, by the rule that the recorder goes by. The records of FROM must hold all calls.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from scalana.graphs.readers.folder.run_folder import RunFolder  # noqa: E402
from scalana.runtime.operations import BY_NAME  # noqa: E402
from scalana.runtime.record import layout  # noqa: E402
from scalana.runtime.record.format import (  # noqa: E402
    EVENT_COMPLETION,
    EVENT_LEVEL_SHIFT,
    ProcessRecord,
)
from scalana.runtime.record.writer import RecordWriter, collective_key, message_key  # noqa: E402

SENDS = (BY_NAME["send"].code, BY_NAME["blocking_send"].code)
RECEIVE = BY_NAME["recv"].code


def thin_run(source: Path, target: Path, level: int) -> None:
    """Write a thinned copy of a run folder."""
    layout.make_records(target)
    for file in source.glob("*.json"):
        (target / file.name).write_bytes(file.read_bytes())
    for number, record in enumerate(RunFolder(source).processes()):
        with RecordWriter(layout.new_record(target, "thin", number)) as writer:
            _write(record, writer, level)


def _kept(record: ProcessRecord, level: int) -> list[bool]:
    """Which events of a record are."""
    events, rank = record.events, int(record.meta.get("rank", 0))
    posts: dict[int, bool] = {}
    result = []
    for row, operation in enumerate(events.operation):
        group = record.groups.get(events.group[row])
        if events.completes[row]:
            kept = posts.get(events.completes[row], False)
        elif group is None:
            kept = row % 2**level == 0  # meets nobody
        elif operation in SENDS or operation == RECEIVE:
            peer, tag, seq = events.peer[row], events.tag[row], events.seq[row]
            ends = (rank, peer) if operation in SENDS else (peer, rank)
            kept = message_key(*ends, tag, seq) % 2**level == 0
        elif events.flags[row] & EVENT_COMPLETION:
            kept = False
        else:
            kept = collective_key(group.name, events.seq[row]) % 2**level == 0
        posts[events.id[row]] = kept
        result.append(kept)
    return result


def _write(record: ProcessRecord, writer: RecordWriter, level: int) -> None:
    events, samples = record.events, record.samples
    for key, value in record.meta.items():
        writer.meta(key, value)
    for code, content in record.codes.items():
        writer.code(code, content.filename, content.name, content.first_line, content.minor, bytes(content.line_table))
    paths = record.paths
    for path in range(1, len(paths)):
        writer.call_path(path, paths.parent[path], paths.code[path], paths.lasti[path])
    for index, thread in record.threads.items():
        writer.thread(index, thread.tid, thread.name, thread.flags)
    for number, group in record.groups.items():
        writer.group(number, group.name, group.my_rank, list(group.ranks))
    totals: dict[tuple[int, int, int], list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    calls: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    for row in range(len(events)):
        calls[events.thread[row], events.enter_ns[row], events.duration_ns[row]].append(row)
    kept, stays = _kept(record, level), defaultdict(lambda: [0, 0])
    for (thread, enter, duration), rows in sorted(calls.items()):
        first = rows[0]
        total = totals[events.path[first], events.operation[first], events.group[first]]
        amounts = (1, events.nbytes[first], duration, events.cpu_ns[first])
        total[:] = [before + more for before, more in zip(total, amounts, strict=True)]
        written, stay = [row for row in rows if kept[row]], stays[thread]
        if not written:
            stay[0] += duration
            stay[1] += events.cpu_ns[first]
            continue
        if stay[0]:
            writer.unwritten(enter - stay[0], stay[0], thread=thread, cpu_ns=stay[1])
            stay[:] = 0, 0
        for row in written:
            writer.event(
                events.id[row],
                events.operation[row],
                enter,
                duration,
                thread=thread,
                group=events.group[row],
                seq=events.seq[row],
                peer=events.peer[row],
                tag=events.tag[row],
                nbytes=events.nbytes[row],
                flags=events.flags[row] | level << EVENT_LEVEL_SHIFT,
                cpu_enter_ns=events.cpu_enter_ns[row],
                cpu_ns=events.cpu_ns[row],
                path=events.path[row],
                completes=events.completes[row],
            )
    for row in range(len(samples)):
        writer.sample(
            samples.thread[row],
            samples.time_ns[row],
            samples.path[row],
            samples.cpu_us[row],
            samples.core_wait_us[row],
            samples.state[row],
        )
    for total_key, total in totals.items():
        writer.total(*total_key, *total)
    writer.end(record.last_ns)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("level", type=int)
    options = parser.parse_args()
    thin_run(options.source, options.target, options.level)


if __name__ == "__main__":
    main()
