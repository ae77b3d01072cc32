"""Functions of a program that load experts, and its cache of them, are found by their loads, and changed in nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalana import api
from scalana.graphs.spans.experts.weight_loads import weight_loads_of

from . import jobs

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).parent / "programs" / "experts_on_demand.py"


def test_lookups_and_loads_of_each_function(tmp_path: Path) -> None:
    plain = jobs.with_torch(PROGRAM, tmp_path)
    done = jobs.with_torch(PROGRAM, tmp_path, record=tmp_path / "run")
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout == plain.stdout
    spans = api.analyze(tmp_path / "run").ppg.spans
    calls = [spans.attributes(row) for row in spans.rows("other", "experts").tolist()]
    assert {call["function"] for call in calls} >= {"Held.expert", "Held.fetch", "expert_weights"}
    kept = [call for call in calls if call["function"] == "expert_weights"]
    missed = int(plain.stdout.splitlines()[-1].split()[2])
    # The first load of each function is what it was found by.
    assert (len(kept), sum(call["loads"] for call in kept)) == (12 * 3 - 1, missed - 1)
    copied = [call for call in calls if call["function"] == "ExpertSlots.copy_in"]
    assert {(call["loads"], call["bytes"]) for call in copied} == {(1, 64 * 64 * 4)}
    assert "raw_expert" not in {call["function"] for call in calls}, "somebody else holds it"
    assert "Held.describe" not in {call["function"] for call in calls if call["loads"]}
    loads = weight_loads_of(spans, 1)
    assert loads is not None and (loads.lookup, loads.load) == ("Held.expert", "Held.fetch")
    assert loads.layers == ("0", "1", "2")
    size = (tmp_path / "1-2.pt").stat().st_size
    assert set(loads.uses.bytes[loads.uses.missed].tolist()) == {float(size)}
