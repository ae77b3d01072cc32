"""An exact simulator of small message-passing programs, zero latency: the test oracle's other half.

A program is a list of actions per rank:

* ``("work", name, ms)``: own work in the activity ``name``
* ``("coll", operation, ranks, root)``: a collective over ``ranks``; a fifth element is the ms that it takes by itself
* ``("post", operation, ranks)``: the same without waiting for it, then or later
* ``("send", dst)`` (buffered) and ``("recv", src)``; a third element is the ms that the message is on its way, a fourth
  one (of a send the third) its tag
* ``("test",)``: completes this rank's latest send

The result is a :class:`Timeline` with one location per rank, one vertex per activity name and per kind of call.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from scalana.graphs.timeline import Activities, Calls, Instances, Locations, OwnWork, Timeline
from scalana.runtime.operations import BY_NAME

Action = tuple
Program = list[list[Action]]


def simulate(
    program: Program, *, period_s: float = 0.0, start_ms: list[float] | None = None, worked: list[tuple] | None = None
):
    """Run ``program``; returns the timeline and the names of its vertices. All work is added to ``worked``, as (name,
    rank, start_s, end_s)."""
    ranks = len(program)
    now = list(start_ms or [0.0] * ranks)
    start = list(now)
    position = [0] * ranks
    names: list[str] = []
    vertex_of: dict[str, int] = {}

    def vertex(name: str) -> int:
        if name not in vertex_of:
            vertex_of[name] = len(names)
            names.append(name)
        return vertex_of[name]

    rows: list[list[dict]] = [[] for _ in range(ranks)]
    work: list[list[tuple[int, int, float]]] = [[] for _ in range(ranks)]  # (gap on rank, vertex, ms)
    sent: dict[tuple[int, int, int], list[dict]] = defaultdict(list)
    received: dict[tuple[int, int, int], int] = defaultdict(int)
    arrived: dict[tuple, dict[int, dict]] = defaultdict(dict)
    counters: dict[tuple, int] = defaultdict(int)
    instances: list[dict] = []

    def step(rank: int) -> bool:
        """Advance one rank by one action if it can; returns whether it could."""
        if position[rank] == len(program[rank]):
            return False
        action = program[rank][position[rank]]
        if action[0] == "work":
            work[rank].append((len(rows[rank]), vertex(action[1]), action[2]))
            now[rank] += action[2]
            if worked is not None:
                worked.append((action[1], rank, (now[rank] - action[2]) / 1e3, now[rank] / 1e3))
        elif action[0] == "send":
            instance = {"op": "send", "root": rank, "comm": 0, "members": {}}
            instances.append(instance)
            row = {"v": vertex("send"), "op": "send", "enter": now[rank], "exit": now[rank], "posts": instance}
            instance["members"]["send"] = row
            rows[rank].append(row)
            sent[rank, action[1], action[2] if len(action) > 2 else 0].append(row)
        elif action[0] == "test":
            row = {"v": vertex("test"), "op": "test", "enter": now[rank], "exit": now[rank]}
            row["waits"] = next(r["posts"] for r in reversed(rows[rank]) if r["op"] == "send")
            rows[rank].append(row)
        elif action[0] == "recv":
            way = action[1], rank, action[3] if len(action) > 3 else 0
            if received[way] >= len(sent[way]):
                return False
            source = sent[way][received[way]]
            received[way] += 1
            exit_ms = max(now[rank], source["enter"] + (action[2] if len(action) > 2 else 0.0))
            row = {"v": vertex("recv"), "op": "recv", "enter": now[rank], "exit": exit_ms, "posts": source["posts"]}
            row["waits"] = source["posts"]
            source["posts"]["members"]["recv"] = row
            rows[rank].append(row)
            now[rank] = exit_ms
        elif action[0] == "post":
            operation, members = action[1:3]
            posted = counters[rank, action[0], tuple(members)]
            here = arrived[action[0], tuple(members), posted]
            instance = next(iter(here.values()))["posts"] if here else None
            if instance is None:
                instance = {"op": operation, "root": -1, "comm": hash(tuple(members)) % 1000, "members": {}}
                instances.append(instance)
            row = {"v": vertex("post"), "op": operation, "enter": now[rank], "exit": now[rank], "posts": instance}
            here[rank] = instance["members"][rank] = row
            rows[rank].append(row)
            counters[rank, action[0], tuple(members)] += 1
        else:
            operation, members, root = action[1:4]
            counter = counters[(rank, operation, tuple(members))]
            here = arrived[operation, tuple(members), counter]
            if rank not in here:
                instance = next(iter(here.values()))["posts"] if here else None
                if instance is None:
                    instance = {"op": operation, "root": root, "comm": hash(tuple(members)) % 1000, "members": {}}
                    instances.append(instance)
                row = {"v": vertex(operation), "op": operation, "enter": now[rank], "exit": None, "posts": instance}
                row["waits"] = instance
                here[rank] = row
                instance["members"][rank] = row
                rows[rank].append(row)
            row = here[rank]
            if operation == "broadcast":
                if rank != root and root not in here:
                    return False
                row["exit"] = max(row["enter"], here[root]["enter"])
            elif operation == "reduce":
                if rank == root and len(here) < len(members):
                    return False
                row["exit"] = max(r["enter"] for r in here.values()) if rank == root else row["enter"]
            else:
                if len(here) < len(members):
                    return False
                row["exit"] = max(r["enter"] for r in here.values())
            row["exit"] += action[4] if len(action) > 4 else 0.0
            now[rank] = row["exit"]
            counters[(rank, operation, tuple(members))] += 1
        position[rank] += 1
        return True

    moved = True
    while moved:
        moved = sum(step(rank) for rank in range(ranks)) > 0
    assert all(position[r] == len(program[r]) for r in range(ranks)), "the program deadlocks"
    return _timeline(rows, work, instances, start, now, vertex_of, period_s), names


def _timeline(rows, work, instances, start, end, vertex_of, period_s):
    ranks = len(rows)
    flat = [row for rank in rows for row in rank]
    first = np.cumsum([0] + [len(rank) for rank in rows])
    for number, row in enumerate(flat):
        row["number"] = number
    for number, instance in enumerate(instances):
        instance["number"] = number
        order = ["send", "recv"] if instance["op"] == "send" else sorted(instance["members"])
        instance["calls"] = [instance["members"][m]["number"] for m in order]
    waits = [[row["waits"]["number"]] if "waits" in row else [] for row in flat]
    calls = Calls(
        location=np.repeat(np.arange(ranks), np.diff(first)),
        vertex=np.array([row["v"] for row in flat], dtype=np.int64),
        operation=np.array([BY_NAME[row["op"]].code for row in flat], dtype=np.int64),
        enter_s=np.array([row["enter"] for row in flat], dtype=float) / 1e3,
        exit_s=np.array([row["exit"] for row in flat], dtype=float) / 1e3,
        cpu_s=np.zeros(len(flat)),
        nbytes=np.zeros(len(flat), dtype=np.int64),
        posts=np.array([row["posts"]["number"] if "posts" in row else -1 for row in flat], dtype=np.int64),
        first=first.astype(np.int64),
        wait_first=np.cumsum([0] + [len(w) for w in waits]).astype(np.int64),
        waits=np.array([i for w in waits for i in w], dtype=np.int64),
    )
    gaps, activities, seconds = [], [], []
    for rank in range(ranks):
        for gap, vertex, ms in work[rank]:
            gaps.append(first[rank] + gap if gap < len(rows[rank]) else len(flat) + rank)
            activities.append(vertex)
            seconds.append(ms / 1e3)
    order = np.argsort(np.array(gaps, dtype=np.int64), kind="stable")
    seconds_array = np.array(seconds, dtype=float)[order]
    return Timeline(
        ranks=ranks,
        locations=Locations(
            np.arange(ranks), np.ones(ranks, dtype=bool), np.array(start) / 1e3, np.array(end, dtype=float) / 1e3
        ),
        calls=calls,
        instances=Instances(
            operation=np.array([BY_NAME[i["op"]].code for i in instances], dtype=np.int64),
            communicator=np.array([i["comm"] for i in instances], dtype=np.int64),
            root=np.array([i["root"] for i in instances], dtype=np.int64),
            first=np.cumsum([0] + [len(i["calls"]) for i in instances]).astype(np.int64),
            members=np.array([c for i in instances for c in i["calls"]], dtype=np.int64),
            complete=np.ones(len(instances), dtype=bool),
        ),
        own=OwnWork(
            burst=np.array(gaps, dtype=np.int64)[order],
            activity=np.array(activities, dtype=np.int64)[order],
            seconds=seconds_array,
            cpu_s=seconds_array.copy(),
            core_wait_s=np.zeros(len(order)),
            samples=np.full(len(order), 1000, dtype=np.int64),
        ),
        activities=Activities(
            vertex=np.arange(len(vertex_of)), line=np.arange(len(vertex_of)) + 1, helper=np.zeros(len(vertex_of), bool)
        ),
        period_s=period_s,
    )


def sampled(timeline: Timeline, period_s: float, seed: int = 0) -> Timeline:
    """The timeline as a sampler with this period would have seen it.

    Inside a gap each sample stands for the time up to the middle between it and its neighbours; a gap without a sample
    gets the mixture of the sampled gaps of its length class.
    """
    random = np.random.default_rng(seed)
    own, calls = timeline.own, timeline.calls
    gaps = len(calls) + len(timeline.locations)
    start = np.empty(gaps)
    for location in range(len(timeline.locations)):
        rows = np.arange(calls.first[location], calls.first[location + 1])
        previous = np.concatenate([[timeline.locations.start_s[location]], calls.exit_s[rows]])
        start[rows] = previous[:-1]
        start[len(calls) + location] = previous[-1]
    phase = random.uniform(0, period_s, len(timeline.locations))
    location_of = np.concatenate([calls.location, np.arange(len(timeline.locations))])
    out: list[tuple[int, int, float, int]] = []
    empty: list[tuple[int, float]] = []
    pool: dict[int, float] = defaultdict(float)
    for gap in range(gaps):
        rows = np.nonzero(own.burst == gap)[0]
        length = own.seconds[rows].sum()
        if length <= 0.0:
            continue
        begin, offset = start[gap], phase[location_of[gap]]
        first = np.ceil((begin - offset) / period_s) * period_s + offset
        ticks = np.arange(first, begin + length, period_s) - begin
        if not len(ticks):
            empty.append((gap, length))
            continue
        edges = np.concatenate([[0.0], (ticks[1:] + ticks[:-1]) / 2, [length]])
        ends = np.cumsum(own.seconds[rows])
        what = own.activity[rows][np.minimum(np.searchsorted(ends, ticks), len(rows) - 1)]
        for activity in np.unique(what):
            seconds = float(np.diff(edges)[what == activity].sum())
            out.append((gap, int(activity), seconds, int((what == activity).sum())))
            if length < 2 * period_s:
                pool[int(activity)] += seconds
    total = sum(pool.values())
    for gap, length in empty:
        out += [(gap, activity, length * seconds / total, 0) for activity, seconds in pool.items()]
    out.sort()
    columns = [np.array([row[i] for row in out]) for i in range(4)]
    seconds = columns[2].astype(float)
    timeline.own = OwnWork(columns[0], columns[1], seconds, seconds.copy(), np.zeros(len(out)), columns[3])
    timeline.period_s = period_s
    return timeline
