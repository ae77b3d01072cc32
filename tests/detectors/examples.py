"""The worked examples of backtracking, as programs for the simulator."""

from __future__ import annotations

ALL = [0, 1, 2, 3]


def everyone(operation="allreduce", root=-1):
    return ("coll", operation, ALL, root)


def work(**named):
    return [("work", name, ms) for name, ms in named.items()]


def decoy():
    ordinary = [*work(mask=10, tok=15, pack=45), everyone()]
    return [
        ordinary,
        [*work(mask=40, tok=15, pack=45), everyone()],
        ordinary,
        [*work(mask=10, tok=45, pack=15), everyone()],
    ]


def chain():
    return [
        [*work(assemble=40, relax=8), ("send", 1), everyone()],
        [("recv", 0), *work(relax=8), ("send", 2), everyone()],
        [("recv", 1), *work(relax=8), ("send", 3), everyone()],
        [("recv", 2), *work(relax=8), everyone()],
    ]


def grid(refine=30):
    rows, columns = {0: [0, 1], 1: [0, 1], 2: [2, 3], 3: [2, 3]}, {0: [0, 2], 2: [0, 2], 1: [1, 3], 3: [1, 3]}
    return [
        [
            *work(sweep=12),
            *(work(refine=refine) if rank == 3 and refine else []),
            ("coll", "allreduce", rows[rank], -1),
            *work(sweep=12),
            ("coll", "allreduce", columns[rank], -1),
        ]
        for rank in ALL
    ]


def masked(f=40, g=30):
    return [[*work(f=f if rank == 1 else 10, g=g if rank == 2 else 10), everyone()] for rank in ALL]


def moving(rebuild=(60, 60, 60, 60)):
    return [
        [
            action
            for step in range(4)
            for action in [
                *work(fwd=30),
                *(work(rebuild=rebuild[step]) if step == rank and rebuild[step] else []),
                everyone(),
            ]
        ]
        for rank in ALL
    ]


def late_root():
    return [
        [*work(own=10), *(work(save=50) if rank == 0 else []), everyone("broadcast", 0), *work(own=10)] for rank in ALL
    ]


def absorbed(x=60):
    def pair(rank):
        return [("coll", "allreduce", [0, 1], -1)] if rank < 2 else []

    return [
        [*work(x=x if rank == 1 else 20), *pair(rank), *work(y=40 if rank == 3 else 10), everyone()] for rank in ALL
    ]
