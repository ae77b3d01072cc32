"""What is known of what machines can do, kept in the user's cache."""

from __future__ import annotations

import json
import os
import platform
import time
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from scalana.detectors.when.roofline import Ceilings
from scalana.runtime import user_cache
from scalana.runtime.torch.operators import cpu_model

if TYPE_CHECKING:
    from scalana.graphs.ppg import PPG

KIND = "ceilings"


@dataclass(frozen=True, slots=True)
class Setting:
    """A machine as a process of a job uses it: what its speed depends on."""

    cpu: str
    """Model."""
    cores: int
    """That the process may use."""
    torch: str
    """Version."""
    processes: int
    """At work on the host at the same time."""
    threads: int
    """Of each in one operator."""
    device: str = ""
    """Name of the device, "" where the CPU computes."""

    def __str__(self) -> str:
        where = self.device or f"{self.cpu or 'an unknown CPU'}, {_many(self.cores, 'core')}"
        who = f"{_many(self.processes, 'process', 'es')} of {_many(self.threads, 'thread')}"
        return f"{where}, torch {self.torch}, {who}"


def _many(count: int, word: str, plural: str = "s") -> str:
    return f"{count} {word}{'' if count == 1 else plural}"


def settings_of(ppg: PPG) -> dict[int, Setting]:
    """The settings of the ranks of a run, as far as they are known."""
    hosts = dict(enumerate(ppg.run.host_of_rank))
    on_host = Counter(hosts.values())
    return {
        rank: Setting(
            one.cpu, one.cores, one.torch, on_host[hosts[rank]] if rank in hosts else 1, one.threads, one.device
        )
        for rank, one in ppg.models.operators.machines.items()
    }


def here(torch: str, processes: int, threads: int, device: str = "") -> Setting:
    """The setting of processes on this machine."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Setting(cpu_model() or platform.processor(), cores, torch, processes, threads, device)


def ceilings_of(ppg: PPG, environ: Mapping[str, str]) -> dict[int, Ceilings]:
    """Ceilings for the ranks of a run, as far as any were measured on such a machine."""
    known: dict[Setting, Ceilings | None] = {}
    found = {}
    for rank, setting in settings_of(ppg).items():
        if setting not in known:
            known[setting] = kept(setting, environ)
        ceilings = known[setting]
        if ceilings is not None:
            found[rank] = ceilings
    return found


def kept(setting: Setting, environ: Mapping[str, str]) -> Ceilings | None:
    """What was measured in a setting; None if nothing was."""
    data = user_cache.kept(_file(setting, environ))
    if data is None:
        return None
    try:
        told = json.loads(data)
        flops = {str(dtype): float(value) for dtype, value in told["flops"].items()}
        sizes = tuple((int(size), float(value)) for size, value in told["bytes_per_s"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return Ceilings(flops, sizes)


def keep(setting: Setting, ceilings: Ceilings, environ: Mapping[str, str]) -> str:
    """Keep what was measured, with what was before of types that were not measured now. Returns the file, "" where it
    cannot be written."""
    before = kept(setting, environ)
    flops = {**(before.flops if before is not None else {}), **ceilings.flops}
    told = {
        "setting": asdict(setting),
        "measured_unix_s": round(time.time()),
        "flops": flops,
        "bytes_per_s": [list(pair) for pair in ceilings.bandwidth],
    }
    path = _file(setting, environ)
    return path if user_cache.keep(path, json.dumps(told, indent=1).encode()) else ""


def _file(setting: Setting, environ: Mapping[str, str]) -> str:
    mark = zlib.crc32(json.dumps(asdict(setting), sort_keys=True).encode("utf-8", "surrogateescape"))
    return os.path.join(user_cache.folder_of(KIND, environ), f"{mark:08x}.json")
