"""Real calls by ``torch.distributed.rpc``: each way to wait for one is walked back to who answers late."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalana import api
from tests.jobs.test_launching import PROGRAMS, line_of
from tests.needs import torch_or_skip
from tests.runtime import jobs

pytestmark = pytest.mark.slow

torch_or_skip()

PROGRAM = PROGRAMS / "rpc_calls.py"
ROUNDS = 3


@pytest.mark.measured
def test_each_way_to_wait_for_a_call_is_known(tmp_path: Path) -> None:
    done = jobs.forked(3, str(PROGRAM), record=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["30", "2.7"]
    ppg = (report := api.analyze(tmp_path)).ppg
    assert not [note for note in ppg.run.notes if "recorded" in note]
    wait_s = {
        place.line: ppg.metrics["wait_s"][vertex].tolist()
        for vertex, place in enumerate(each.place for each in ppg.psg.vertices)
        if place.file == str(PROGRAM)
    }
    # rpc_sync, rpc_async and RRef.to_here, of the one that calls.
    for comment, slept_s in (("waits at once", 0.2), ("waits for both", 0.3), ("waits for objects", 0.4)):
        assert wait_s[line_of(PROGRAM, comment)][0] > 0.8 * ROUNDS * slept_s, comment
    late = {finding.function: finding.ranks for finding in report.findings}
    assert late["builds"] == late["computes"] == [2]
    assert {name for name, ranks in late.items() if ranks == [2]} <= {"answers", "computes", "builds"}
    # The third has nothing to do but to wait for the end of all.
    assert wait_s[line_of(PROGRAM, "waits for all")][1] > 0.8 * 2.7
