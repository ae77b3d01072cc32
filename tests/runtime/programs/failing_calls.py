"""Communication that fails in Python, in the backend and in a wait; prints what the program sees of it."""

import os
import sys
import traceback
from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()


def say(*words):
    """In one write, lest the lines of two ranks mix."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def attempt(call):
    try:
        call()
        say(rank, "nothing")
    except Exception as error:
        paths = {frame.filename for frame in traceback.extract_tb(error.__traceback__)}
        # Frames of ours may stand between, but the program's own and torch's are all there.
        files = {path.rsplit("/", 1)[-1] for path in paths if "/runtime/torch/" not in path}
        text = str(error).split("\n")[0].split(" [")[0]
        say(rank, type(error).__name__, text, sorted(files))


attempt(lambda: dist.all_reduce([1, 2]))
attempt(lambda: dist.send(torch.ones(1), rank))
attempt(lambda: dist.all_gather([torch.zeros(1)], torch.ones(2)))
attempt(lambda: dist.new_group([0, 0]))
attempt(lambda: dist.init_process_group("gloo"))
dist.barrier()
if rank == 0:
    never = dist.irecv(torch.zeros(1), 1, tag=99)
    try:
        never.wait(timeout=timedelta(milliseconds=200))
        say("came")
    except RuntimeError as error:
        say(type(error).__name__, "in wait")
say("end", rank)
store = dist.distributed_c10d._get_default_store()
if rank == 0:
    store.set("over", "yes")
store.wait(["over"])
os._exit(0)  # the pair that timed out is broken
