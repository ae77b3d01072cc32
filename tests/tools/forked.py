"""Starts a program on several ranks that are forked from one process which has imported torch.

Does what ``torchrun --standalone --nproc-per-node RANKS PROGRAM`` does, without the seconds of CPU time that it and
every rank take to import torch::

    python tests/tools/forked.py RANKS PROGRAM [ARGUMENTS]

:mod:`tests.tools.fork_server` imports torch but once for many jobs.
"""

from __future__ import annotations

import ctypes
import gc
import os
import runpy
import select
import signal
import socket
import sys
import types
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch.distributed

if TYPE_CHECKING:
    from collections.abc import Iterable

LARGE = {
    "DistributedDataParallel": "torch._dynamo",
    "torch.compile": "torch._dynamo.backends.debugging",
    "megatron.core": "megatron.core.distributed",
    "torchtitan": "torch._dynamo.backends.debugging",
    "deepspeed": "deepspeed.pipe",
    "from trl": "trl.trainer.grpo_trainer",
    "MixtralForCausalLM": "transformers.models.mixtral.modeling_mixtral",
    "_functional_collectives": "torch.distributed._functional_collectives",
    "init_device_mesh": "torch.distributed.tensor",
    "fsdp": "torch.distributed.fsdp",
}
"""What programs that have a word in them import sooner or later; ranks share it if it is imported before."""


def keep_groups() -> None:
    """Let process groups outlive the program.

    The reducer of DDP, where it holds the last reference to a group, destroys it with the interpreter's lock held, and
    waits for a thread of the group that may want the lock: a run in twenty would hang.
    """
    destroy = torch.distributed.destroy_process_group

    def keeping(*arguments: Any, **named: Any) -> None:
        for group in torch.distributed.distributed_c10d._world.pg_map:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(group))
        destroy(*arguments, **named)

    torch.distributed.destroy_process_group = keeping


def rank_main(rank: int, ranks: int, port: int, arguments: list[str]) -> None:
    os.environ.update(
        RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_WORLD_SIZE=str(ranks),
        MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
        TORCHELASTIC_USE_AGENT_STORE="True", TORCHELASTIC_RESTART_COUNT="0",  # the store is not that of rank 0
    )  # fmt: skip
    keep_groups()
    sys.argv = arguments
    sys.path[0] = str(Path(arguments[0]).resolve().parent)
    runpy.run_path(arguments[0], run_name="__main__")


def wait_for(children: set[int], client: socket.socket | None) -> int:
    """Waits for all ranks, or ends them when one fails or nobody waits for them. The exit code: that of the first that
    fails, or 0."""
    failed = 0
    ends = {os.pidfd_open(child): child for child in children}
    while ends:
        ready, _, _ = select.select([*ends, *([client] if client else [])], [], [])
        if client in ready:  # it has nothing to say, so it has gone
            client, failed = None, failed or 1
            end(ends.values())
        for descriptor in set(ready) & ends.keys():
            _, status = os.waitpid(ends.pop(descriptor), 0)
            os.close(descriptor)
            if status and not failed:
                failed = abs(os.waitstatus_to_exitcode(status))
                end(ends.values())
    return failed


def end(processes: Iterable[int]) -> None:
    for process in processes:
        os.kill(process, signal.SIGTERM)


def wait_outside(client: socket.socket) -> None:
    """Goes on in a new process, and tells the client how that one has ended."""
    child = os.fork()
    if child:
        client.sendall(wait_for({child}, client).to_bytes(4, "big"))
        os._exit(0)
    client.close()


def run_alone(arguments: list[str]) -> None:
    """Does what ``python ARGUMENTS`` does with a file, or with ``-c`` and code."""
    keep_groups()
    gc.freeze()
    if arguments[0] != "-c":
        sys.argv = arguments
        sys.path[0] = str(Path(arguments[0]).resolve().parent)
        runpy.run_path(arguments[0], run_name="__main__")
        return
    sys.argv = ["-c", *arguments[2:]]
    sys.path[0] = ""
    sys.modules["__main__"] = main = types.ModuleType("__main__")
    exec(compile(arguments[1], "<string>", "exec"), main.__dict__)


def run(client: socket.socket | None = None) -> None:
    """Runs the job of the command line, and exits as it does; tells the client how, which may await this process' end
    by that of the connection."""
    ranks, arguments = int(sys.argv[1]), sys.argv[2:]
    text = Path(arguments[0]).read_text(encoding="utf-8")
    for word, module in LARGE.items():
        if word in text and find_spec(module.split(".")[0]):
            import_module(module)
    gc.freeze()  # at their ends ranks would go through, and so copy, all that torch has made
    listener = socket.create_server(("127.0.0.1", 0))
    port = int(listener.getsockname()[1])
    children = set()
    for rank in range(ranks):
        child = os.fork()
        if not child:
            listener.close()
            if client is not None:
                client.close()
            # To end as any program does, with the interpreter: not by os._exit, as a process of multiprocessing.
            return rank_main(rank, ranks, port, arguments)
        children.add(child)
    # Made after the fork: its threads would not be there in the ranks.
    store = torch.distributed.TCPStore(
        "127.0.0.1", port, is_master=True, wait_for_workers=False, master_listen_fd=listener.detach()
    )
    failed = wait_for(children, client)
    del store
    if client is not None:
        client.sendall(failed.to_bytes(4, "big"))
    sys.exit(failed)


if __name__ == "__main__":
    run()
