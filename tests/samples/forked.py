"""Starts a program on several ranks that are forked from one process which has imported torch.

Does what ``torchrun --standalone --nproc-per-node RANKS PROGRAM`` does, without the seconds that every rank takes to
import torch::

    python -m tests.samples.forked RANKS PROGRAM [ARGUMENTS]
"""

from __future__ import annotations

import os
import runpy
import socket
import sys
from importlib import import_module
from pathlib import Path

import torch.distributed
import torch.multiprocessing

LARGE = {"DistributedDataParallel": "torch._dynamo", "fsdp": "torch.distributed.fsdp"}
"""What programs that have a word in them import sooner or later; ranks share it if it is imported before."""


def rank_main(rank: int, ranks: int, port: int, arguments: list[str]) -> None:
    os.environ.update(
        RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_WORLD_SIZE=str(ranks),
        MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
    )  # fmt: skip
    sys.argv = arguments
    runpy.run_path(arguments[0], run_name="__main__")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def main() -> None:
    ranks, arguments = int(sys.argv[1]), sys.argv[2:]
    text = Path(arguments[0]).read_text(encoding="utf-8")
    for word, module in LARGE.items():
        if word in text:
            import_module(module)
    torch.multiprocessing.start_processes(rank_main, (ranks, free_port(), arguments), nprocs=ranks, start_method="fork")


if __name__ == "__main__":
    main()
