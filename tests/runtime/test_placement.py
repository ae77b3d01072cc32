"""On which NUMA nodes threads run and weights lie, by what the kernel says; nothing is asked where there is one."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from scalana.runtime import _core, session
from scalana.runtime.torch.sequences import placement
from scalana.runtime.torch.sequences.placement import Placement

from .recording import recorded

PAGE = 4096


def nodes(folder: Path, *listed: str) -> str:
    """A folder as the kernel's, with the cores of each node."""
    for number, cores in enumerate(listed):
        (folder / f"node{number}").mkdir()
        (folder / f"node{number}" / "cpulist").write_text(f"{cores}\n")
    (folder / "online").write_text(f"0-{len(listed) - 1}\n")
    return str(folder)


class Weights:
    """A model with parameters of some bytes at some addresses."""

    def __init__(self, *parts: tuple[int, int], device: str = "cpu") -> None:
        device_ = SimpleNamespace(type=device)
        self.all = [SimpleNamespace(data_ptr=lambda at=at: at, nbytes=size, device=device_) for at, size in parts]

    def parameters(self) -> list[SimpleNamespace]:
        return self.all


def test_cores_by_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "NODES", nodes(tmp_path, "0-1,4", "2,3"))
    assert Placement().node_of == {0: 0, 1: 0, 4: 0, 2: 1, 3: 1}


@pytest.mark.parametrize("listed", [("0-63",), ("0-3", ""), ("0-3", "none")], ids=["one", "no cores", "unreadable"])
def test_nothing_is_asked_where_one_node_has_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listed: tuple[str, ...]
) -> None:
    monkeypatch.setattr(placement, "NODES", nodes(tmp_path, *listed))
    monkeypatch.setattr(session, "core", None)  # whoever asks it fails
    found = Placement()
    assert found.cpu_ns() == ()
    assert found.of_phases([(), (), ()], Weights()) == [(), ()]


def test_threads_and_weights_of_each_phase(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "NODES", nodes(tmp_path, "0-1", "2-3"))
    start, size = 100 * PAGE, 8 * PAGE
    asked: list[int] = []

    def page_nodes(addresses: list[int]) -> tuple[int, ...]:
        asked[:] = addresses
        return tuple(-2 if at == start else int(at >= start + 6 * PAGE) for at in addresses)

    monkeypatch.setattr(session, "core", SimpleNamespace(page_nodes=page_nodes))
    model = Weights((start, size))
    # The prefill is too short to be seen; three quarters of what follows run on node 1.
    first, second = Placement().of_phases([(5,), (5,), (15, 0, 20, 10)], model)
    assert asked == [start + PAGE * page for page in range(8)]
    assert first == second == ("node", 1, "cores", 3, "memory_node", 0, "far_permille", 607)


def test_weights_on_devices_and_questions_that_are_forbidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "NODES", nodes(tmp_path, "0", "1"))
    notes: list[str] = []
    monkeypatch.setattr(session, "note", notes.append)

    def forbidden(addresses: list[int]) -> tuple[int, ...]:
        if addresses:
            raise PermissionError(1, "Operation not permitted")
        return ()

    monkeypatch.setattr(session, "core", SimpleNamespace(page_nodes=forbidden))
    found, times = Placement(), [(0, 0), (0, 4), (0, 8)]
    on_device, on_host = Weights((PAGE, 8 * PAGE), device="cuda"), Weights((PAGE, 8 * PAGE))
    assert found.of_phases(times, on_device) == [("node", 1, "cores", 1)] * 2
    assert notes == []
    for _ in range(2):
        assert found.of_phases(times, on_host) == [("node", 1, "cores", 1)] * 2
    (note,) = notes
    assert "not recorded" in note


BUSY = """
import json
_core.start(RECORD, 200, 1 << 24)
core = min(os.sched_getaffinity(0))
os.sched_setaffinity(0, {core})
def work(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
_core.core_times()
work(0.5)
other = threading.Thread(target=work, args=(0.3,))
other.start()
other.join()
page = bytearray(1 << 16)
_core.meta("found", json.dumps([core, _core.core_times(), _core.thread_cpu()]))
try:
    _core.meta("pages", json.dumps(_core.page_nodes([id(page), 0])))
except OSError as failure:
    _core.meta("forbidden", str(failure.errno))
_core.stop(0)
"""


@pytest.mark.skipif(not _core.supported(), reason="the frames of this interpreter cannot be read")
def test_cpu_time_by_core_and_nodes_of_pages(tmp_path: Path) -> None:
    record = recorded(BUSY, tmp_path)
    core, times, cpu_ns = json.loads(record.meta["found"])
    assert len(times) == core + 1 and not any(times[:core])
    # All but what was used before the first look at each thread, and since the last.
    assert 0.3 * cpu_ns < times[core] < cpu_ns + 0.4e9
    if "pages" in record.meta:
        here, nowhere = json.loads(record.meta["pages"])
        assert here >= 0 > nowhere


def test_pages_are_addresses() -> None:
    with pytest.raises((TypeError, OverflowError)):
        _core.page_nodes(["0"])
    with pytest.raises(TypeError):
        _core.page_nodes(5)
