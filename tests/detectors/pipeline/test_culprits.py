"""Who is behind a cause: told from modelled steps with one planted cause each."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from scalana.detectors.pipeline.diagnosis.culprits import Culprit, find_culprits
from scalana.detectors.pipeline.diagnosis.diagnose import Diagnosis, diagnose
from scalana.detectors.pipeline.measured.layers import Layers
from scalana.detectors.pipeline.measured.step_waits import LINK, usual_step, waits_of_step
from scalana.detectors.pipeline.model.actions import Kind
from scalana.detectors.pipeline.model.engines import ENGINES
from scalana.detectors.pipeline.model.schedules import BY_NAME
from tests.detectors.pipeline.examples import rows_of, uniform

MS = 1e-3
ONE_F_ONE_B = BY_NAME["1F1B"].program(4, 8)


def usual() -> np.ndarray:
    return uniform(4, 20 * MS, 40 * MS, 0, 0)


def diagnosed(costs: np.ndarray, layers: Layers | None = None, **options: float) -> Diagnosis:
    rows = rows_of(ONE_F_ONE_B, costs, "torch-1f1b", steps=3, meet=True, **options)
    return diagnose(rows, ENGINES["torch-1f1b"], layers=layers)


def only(diagnosis: Diagnosis) -> Culprit:
    (culprit,) = find_culprits(diagnosis)
    return culprit


@pytest.mark.slow
def test_a_balanced_pipeline_has_no_culprit() -> None:
    assert find_culprits(diagnosed(usual())) == []


def test_the_heavy_stage_is_behind_imbalance_and_a_new_split_is_what_it_saves() -> None:
    costs = usual()
    costs[:, 3] *= 1.75
    layers = np.zeros((4, 17))
    layers[:2] = 25
    layers[:2, 16] = 75
    known = Layers((*(f"layers.{i}" for i in range(16)), "lm_head"), layers, np.array([0, 4, 8, 12, 17]))
    found = only(diagnosed(costs, known))
    assert (found.cause, found.ranks, found.stages) == ("imbalance", (3,), (3,))
    assert found.evidence.split == "5/5/5/2"
    assert found.saving_s == pytest.approx((1020 - 795) * MS)


def test_a_single_layer_that_is_the_wall_promises_nothing() -> None:
    costs = usual()
    costs[:, 1] *= 2
    layers = Layers(("a", "b", "c", "d"), usual(), np.arange(5))
    found = only(diagnosed(costs, layers))
    assert found.ranks == (1,) and found.saving_s == 0.0 and found.evidence.wall == "b"


def test_a_straggler_is_told_with_its_microbatches() -> None:
    costs = np.repeat(usual()[:, :, None], 8, axis=2)
    costs[:, 1, ::3] *= 2.5
    found = only(diagnosed(costs))
    assert (found.cause, found.ranks, found.stages) == ("straggler", (1,), (1,))
    assert found.evidence.microbatches == [0, 3, 6] and found.evidence.which == "every third microbatch"
    assert found.saving_s > 100 * MS


def test_links_that_are_all_slow_blame_no_rank_in_particular() -> None:
    found = only(diagnosed(usual(), latency_s=10 * MS))
    assert found.cause == "link" and found.ranks == (0, 1, 2, 3) and found.stages == ()
    assert found.evidence.latency_s == pytest.approx(10 * MS)


def test_data_that_all_ranks_load_is_found_on_all_and_what_all_do_between_actions_on_none() -> None:
    rows = rows_of(ONE_F_ONE_B, usual(), "torch-1f1b", steps=3, meet=True, host_s=10 * MS)
    busy = diagnose(rows, ENGINES["torch-1f1b"])
    assert busy.attribution.shares["host"] > 0.1 and find_culprits(busy) == []
    loads = np.where(rows.kind == Kind.F, 10 * MS, 0.0)
    found = only(diagnose(replace(rows, data_s=loads), ENGINES["torch-1f1b"]))
    assert (found.cause, found.ranks) == ("data", (0, 1, 2, 3))


def test_microbatches_that_are_long_on_all_stages_have_no_culprit() -> None:
    costs = np.repeat(usual()[:, :, None], 8, axis=2)
    costs[:, :, ::3] *= 1.5
    assert find_culprits(diagnosed(costs)) == []
    costs[:, 2, 4] *= 1.3  # what is little beside them is no culprit either
    assert find_culprits(diagnosed(costs)) == []


def test_waits_lead_to_the_stage_that_did_not_wait() -> None:
    costs = usual()
    costs[:, 3] *= 1.75
    measured = diagnosed(costs).measured
    step = waits_of_step(measured, usual_step(measured))
    program = measured.program
    steady = (step.wait_s > 0) & (program.rank[step.actions] < 3) & (program.kind[step.actions] == Kind.B)
    assert steady.sum() > 15 and set(step.root[steady].tolist()) == {3}
    assert float(step.begin_s.min()) == 0.0 and (step.wait_s[program.rank[step.actions] == 3][1:] == 0).all()


def test_a_wait_for_a_message_on_its_way_is_the_links() -> None:
    measured = diagnosed(usual(), latency_s=200 * MS).measured
    step = waits_of_step(measured, 1)
    assert LINK in step.root.tolist()


def test_the_heavy_chunk_of_a_rank_is_behind_imbalance() -> None:
    costs = uniform(4, 10 * MS, 20 * MS, 0, 0)
    costs[:, 3] *= 3
    for swapped in (False, True):
        if swapped:  # then both ranks have as much to do
            costs[:, 0] *= 3
        rows = rows_of(BY_NAME["Interleaved1F1B"].program(2, 4, 2), costs, "megatron-interleaved", steps=3, meet=True)
        found = only(diagnose(rows, ENGINES["megatron-interleaved"]))
        assert (found.cause, found.stages) == ("imbalance", (0, 3) if swapped else (3,))
        assert found.ranks == ((0, 1) if swapped else (1,))


def test_a_message_that_was_late_once_is_no_slow_link() -> None:
    found = diagnosed(usual(), latency_s=1 * MS, late_s=200 * MS)
    assert found.attribution.shares["link"] > 0.1
    assert find_culprits(found) == []


def test_a_slow_link_is_told_from_others_in_one_batch() -> None:
    latency = np.full((4, 4), 0.3 * MS)
    latency[1, 2] = 20 * MS
    costs = uniform(8, 10 * MS, 20 * MS, 0, 0)
    program = BY_NAME["Interleaved1F1B"].program(4, 8, 2)
    rows = rows_of(program, costs, "megatron-interleaved", steps=3, meet=True, latency_s=latency)
    found = only(diagnose(rows, ENGINES["megatron-interleaved"]))
    assert (found.cause, found.ranks) == ("link", (1, 2))
    assert found.evidence.links == [[1, 2]] and found.evidence.latency_s == pytest.approx(20 * MS)
