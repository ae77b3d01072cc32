"""Ray Serve: a deployment with two replicas, one of which is slow; each writes to a folder, the argument, how many
seconds it was."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import ray
from ray import serve

REQUESTS, SLOW_S = 16, 0.4


@serve.deployment(num_replicas=2, max_ongoing_requests=1)
class Model:
    def __init__(self, folder: str) -> None:
        self.file, self.seconds = Path(folder), 0.0
        rank = serve.get_replica_context().rank
        self.rank = rank if isinstance(rank, int) else rank.rank

    def __call__(self, number: int) -> int:
        begin = time.monotonic()
        if self.rank == 1:
            time.sleep(SLOW_S)  # slow replica
        else:
            time.sleep(SLOW_S / 20)
        self.seconds += time.monotonic() - begin
        Path(self.file, f"replica{self.rank}").write_text(str(self.seconds))
        return number


def main(folder: str) -> None:
    ray.init(num_cpus=4, log_to_driver=False)
    handle = serve.run(Model.bind(folder), name="app", route_prefix=None)
    total = 0
    for _ in range(REQUESTS):
        responses = [handle.remote(number) for number in range(2)]
        total += sum(response.result() for response in responses)  # waits for replies
    serve.shutdown()
    print("served", total, flush=True)


main(sys.argv[1])
