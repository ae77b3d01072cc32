"""What verl needs to train on CPUs without vLLM or SGLang: a platform, and an engine that generates.

verl loads it in every process (``VERL_USE_EXTERNAL_MODULES=verl_cpu VERL_PLATFORM=cpu``). It knows nothing of scalana.
Where that is planted, the second trainer computes slowly, or all take their time for every token.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
import types
from typing import Any

import ray
import torch
from torch.distributed.tensor import DTensor
from verl.plugin.platform.platform_base import PlatformBase
from verl.plugin.platform.platform_manager import PlatformRegistry
from verl.utils import distributed
from verl.workers.rollout import base
from verl.workers.rollout.replica import RolloutReplica, RolloutReplicaRegistry
from verl_planted import planted
from verl_server import Server

RESOURCE = "NPU"
"""verl counts the places for its processes by GPU or NPU, and by nothing else."""


class _Device(types.ModuleType):
    """``torch.cpu`` with the memory that an accelerator would have."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.cpu, name)

    def memory_allocated(self, *_: Any) -> int:
        return 0

    memory_reserved = max_memory_allocated = max_memory_reserved = memory_allocated

    def mem_get_info(self, *_: Any) -> tuple[int, int]:
        return 1, 1

    def nothing(self, *_: Any) -> None:
        pass

    empty_cache = ipc_collect = reset_peak_memory_stats = manual_seed = manual_seed_all = set_device = nothing

    def get_rng_state(self, *_: Any) -> torch.Tensor:
        return torch.get_rng_state()

    def set_rng_state(self, state: torch.Tensor, *_: Any) -> None:
        torch.set_rng_state(state)

    def get_device_name(self, *_: Any) -> str:
        return "CPU"


@PlatformRegistry.register(platform="cpu")
class PlatformCPU(PlatformBase):
    device_name = vendor_name = "cpu"
    device_module = _Device("cpu")

    def is_available(self) -> bool:
        return True

    def current_device(self) -> Any:
        return torch.device("cpu")

    def device_count(self) -> int:
        return 2

    def nothing(self, *_: Any) -> None:
        pass

    set_device = synchronize = manual_seed = manual_seed_all = set_allocator_settings = empty_cache = nothing
    profiler_start = profiler_stop = cudart = nothing

    def get_device_capability(self, device_index: int = 0) -> tuple[int | None, int | None]:
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CPU_VISIBLE_DEVICES"

    def nvtx_range(self, msg: str) -> Any:
        return contextlib.nullcontext()

    def ray_resource_name(self) -> str:
        return RESOURCE

    def ray_noset_envvars(self) -> list[str]:
        return []

    def is_ipc_supported(self) -> bool:
        return False


class Replica(RolloutReplica):
    async def launch_servers(self) -> None:
        name = f"server_{self.replica_rank}"
        actor = ray.remote(Server).options(name=name, num_cpus=0, max_concurrency=64)
        self._server_handle = actor.remote(self.model_config.path, self.replica_rank, self.config.response_length)
        self._server_address = name
        self.servers = [self._server_handle]


class Adapter(base.BaseRollout):
    """In each trainer: it brings new weights to the server of its own."""

    def __init__(self, config: Any, model_config: Any, device_mesh: Any, replica_rank: int = -1) -> None:
        super().__init__(config, model_config, device_mesh)
        self.replica_rank = replica_rank if replica_rank >= 0 else int(os.environ["RANK"])
        self.is_leader_rank = True

    async def resume(self, tags: list[str]) -> None:
        pass

    async def release(self) -> None:
        pass

    async def update_weights(self, weights: Any, global_steps: int | None = None, **_: Any) -> None:
        whole = {}
        for name, weight in weights:
            whole[name] = (weight.full_tensor() if isinstance(weight, DTensor) else weight).detach().clone()
        await ray.get_actor(f"server_{self.replica_rank}").update.remote(whole, global_steps)


# Else it asks for one backend of the processors, and for another one of the device, which is the same here.
distributed.initialize_global_process_group_ray = functools.partial(
    distributed.initialize_global_process_group_ray, backend="gloo"
)
RolloutReplicaRegistry.register("cpu", lambda: Replica)
base._ROLLOUT_REGISTRY[("cpu", "async")] = f"{__name__}.Adapter"

SLOW_S = planted("trainer") if os.environ.get("RANK") == "1" else 0.0
TOKEN_S = planted("rows")

if os.environ.get("RANK") and (SLOW_S or TOKEN_S):
    from transformers import LlamaForCausalLM

    plain = LlamaForCausalLM.forward

    def forward(self: Any, *arguments: Any, **named: Any) -> Any:
        time.sleep(SLOW_S + TOKEN_S * float(named["attention_mask"].sum()))  # a slow device
        return plain(self, *arguments, **named)

    LlamaForCausalLM.forward = forward
