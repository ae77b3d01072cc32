"""The same report by the workers of a Dask cluster, byte for byte, and what a cluster that cannot be used says."""

from __future__ import annotations

import json
import os
import pickle
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scalana
from scalana.errors import ClusterError
from scalana.graphs.readers.columns import blocks
from scalana.graphs.readers.columns.gather import Collected, collect
from scalana.graphs.readers.folder.run_folder import RunFolder
from tests.needs import Later
from tests.scalana.recorded import write_run
from tests.tools.generate_run import write_run as write_model
from tests.tools.job_model import Model

pytestmark = pytest.mark.slow

if find_spec("distributed") is None:
    pytest.skip("needs distributed", allow_module_level=True)

distributed = Later("distributed")

CHILD_OF = 3
"""The rank whose record is turned into a helper's, in :func:`folder`."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """Address of a scheduler with two worker processes."""
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as local:
        yield local.scheduler_address


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 16 ranks on two hosts, whose files are not in the order of the ranks, with one that is no record."""
    path = tmp_path_factory.mktemp("model") / "run"
    write_model(path, Model(16, 6), spans=40)
    records = path / "records"
    for number, file in enumerate(sorted(records.glob("*.rec"))):
        file.rename(records / f"host-{number * 7 % 16:02d}-0.rec")
    (records / "host-99-0.rec").write_bytes(b"no record")
    return path


def command(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "scalana", *arguments],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=120,
    )


def but_for_attempts(report: str) -> dict[str, Any]:
    """A report without what attempts of the job took, which workers do not read."""
    found: dict[str, Any] = json.loads(report)
    found.pop("productive_time", None)
    return found


def test_the_report_is_the_same_to_the_byte(cluster: str, folder: Path) -> None:
    here = scalana.analyze(folder)
    there = scalana.analyze(folder, scheduler=cluster)
    assert here.findings
    assert but_for_attempts(there.to_json()) == but_for_attempts(here.to_json())
    assert any("host-99-0.rec" in warning for warning in there.warnings)
    assert there.warnings == here.warnings
    for name, values in here.ppg.metrics.items():
        assert values.tobytes() == there.ppg.metrics[name].tobytes(), name


def test_the_command_takes_a_scheduler(cluster: str, tmp_path: Path) -> None:
    write_run(tmp_path / "run", tmp_path / "job")
    done = command("report", "--scheduler", cluster, "--format", "json", str(tmp_path / "run"))
    assert done.returncode == 0, done.stderr
    assert but_for_attempts(done.stdout) == but_for_attempts(scalana.analyze(tmp_path / "run").to_json())


def test_comparisons_take_a_scheduler(cluster: str, tmp_path: Path) -> None:
    for name, work_ms in (("two", (20, 40)), ("three", (20, 40, 20))):
        write_run(tmp_path / name, tmp_path / "job", work_ms)
    runs = [tmp_path / "two", tmp_path / "three"]
    assert scalana.scaling(runs, scheduler=cluster).to_json() == scalana.scaling(runs).to_json()
    assert scalana.diff(*runs, scheduler=cluster).to_json() == scalana.diff(*runs).to_json()


def test_a_worker_that_does_not_see_the_folder_is_told(cluster: str, folder: Path) -> None:
    hidden = RunFolder(folder)
    hidden.record_files = lambda: [Path("/not/shared/run/records/host-1-0.rec")]  # type: ignore[method-assign]
    from scalana.cluster import Cluster

    with Cluster(cluster) as connection, pytest.raises(ClusterError) as error:
        connection.read(hidden, lambda *_: {}, lambda what: None)
    assert f"--scheduler {cluster}: a worker cannot find /not/shared/run" in str(error.value)
    assert "file system" in str(error.value)


def test_nobody_at_the_address(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scalana.cluster.CONNECT_S", 0.5)
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{bound.getsockname()[1]}"
        with pytest.raises(ClusterError, match=f"--scheduler {address}: no Dask scheduler answers"):
            scalana.analyze(folder, scheduler=address)
    with pytest.raises(ClusterError, match="--scheduler nonsense://: no Dask scheduler"):
        scalana.analyze(folder, scheduler="nonsense://")


def test_a_scheduler_without_workers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scalana.cluster.CONNECT_S", 0.5)
    with distributed.LocalCluster(n_workers=0, dashboard_address=":0") as local:
        with pytest.raises(ClusterError, match="has no workers"):
            scalana.analyze(folder, scheduler=local.scheduler_address)


def test_without_dask_the_command_says_what_to_install(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "distributed.py").write_text("raise ImportError('not here')\n")
    done = command("report", "--scheduler", "tcp://127.0.0.1:1", str(folder), PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    assert done.stderr == "scalana: --scheduler needs Dask: pip install 'scalana[dask]'\n"


def test_blocks_in_any_order_are_the_same_as_all_records(folder: Path) -> None:
    """Processes of several blocks between each other, helpers among them, and blocks that travelled."""
    records = RunFolder(folder).processes()
    ranks = [record.rank if record.rank < CHILD_OF else record.rank - 1 for record in records]
    own = [record.rank != CHILD_OF for record in records]
    whole = collect(list(records), list(ranks), list(own))
    parts = []
    for number in range(3):
        rows = range(number, len(records), 3)
        held = pickle.loads(pickle.dumps(blocks.Held([records[row] for row in rows], [])))
        share = blocks.Share(
            list(range(len(rows))), list(rows), [ranks[row] for row in rows], [own[row] for row in rows]
        )
        parts.append(pickle.loads(pickle.dumps(blocks.collect_block(held, share, {}))))
    assert_same(blocks.merge(parts), whole)


def assert_same_columns(mine: object, theirs: object, name: str) -> None:
    for column in fields(theirs):  # type: ignore[arg-type]
        if isinstance(getattr(theirs, column.name), np.ndarray):
            values = getattr(mine, column.name), getattr(theirs, column.name)
            np.testing.assert_array_equal(*values, f"{name}.{column.name}")


def assert_same(merged: Collected, whole: Collected) -> None:
    assert [record.file for record in merged.records] == [record.file for record in whole.records]
    assert merged.communicators == whole.communicators
    assert merged.own_paths == whole.own_paths
    assert merged.spans.names == whole.spans.names
    assert_same_columns(merged.spans, whole.spans, "spans")
    assert_same_columns(merged.spans.lanes, whole.spans.lanes, "lanes")
    for name in ("rank", "is_own", "start_ns", "end_ns", "thinned"):
        np.testing.assert_array_equal(getattr(merged, name), getattr(whole, name), name)
    for name, values in whole.rows.items():
        if name not in ("paths", "communicators", "names"):  # what is new depends on who was there before
            np.testing.assert_array_equal(merged.rows[name], values, name)
    for table in ("threads", "samples", "events", "totals", "unwritten"):
        assert_same_columns(getattr(merged, table), getattr(whole, table), table)
    for name in ("parent", "lasti"):
        np.testing.assert_array_equal(getattr(merged.tree, name), getattr(whole.tree, name))
    files = [[tree.codes[code][1] for code in tree.code.tolist()] for tree in (merged.tree, whole.tree)]
    assert files[0] == files[1]
