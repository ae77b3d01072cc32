"""What a run's description warns of."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from scalana.graphs.run_info import RunInfo, _lacking, _on_other_hosts, without_record
from scalana.runtime.operations import BY_NAME


def test_a_receive_that_was_withdrawn_lacks_nobody() -> None:
    """One that was completed does, without its sender, and so does a collective that one rank was alone in. The end of
    MPI does not, which records of Python do not reach."""
    receive, reduction, end = (BY_NAME[name].code for name in ("recv", "allreduce", "finalize"))
    instances = SimpleNamespace(
        operation=np.array([receive, receive, reduction, receive, end]),
        complete=np.array([False, False, False, True, False]),
    )
    calls = SimpleNamespace(waits=np.array([1, 3]))
    assert _lacking(cast(Any, SimpleNamespace(instances=instances, calls=calls))) == 2


def test_hosts_that_a_launcher_names_and_that_left_no_record_are_where_records_may_be() -> None:
    run = RunInfo(ranks=4, missing_ranks=[2, 3], host_of_rank=["node0", "node0", "", ""])
    folder = SimpleNamespace(path="/jobs/run", launched_hosts=lambda: ["node0.cluster", "node1"])
    (said,) = _on_other_hosts(run, cast(Any, folder))
    assert "rsync -a node1:/jobs/run/ run-node1 && scalana report run run-node1" in said
    assert _on_other_hosts(RunInfo(ranks=4), cast(Any, folder)) == []


def test_results_without_a_record_name_the_host_where_it_may_be() -> None:
    """As far as it is known which hosts there are; where ranks lack a record, that warning has the command."""
    folder = cast(Any, SimpleNamespace(path="/jobs/run", launched_hosts=lambda: ["node0.cluster", "node1"]))
    said = without_record(3, RunInfo(), folder, ["node0"])
    assert said.startswith("the results of 3 calls came from processes without a record here")
    assert said.endswith(
        "their records are in /jobs/run on node1; to put them together: "
        "rsync -a node1:/jobs/run/ run-node1 && scalana report run run-node1"
    )
    for run, here in ((RunInfo(missing_ranks=[1]), ["node0"]), (RunInfo(), ["node0", "node1"])):
        assert "rsync" not in without_record(1, run, folder, here)
