"""Loops that generate tokens are known by their calls, and changed in nothing."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest

from scalana import api
from scalana.graphs.spans.requests import requests_of
from tests.needs import Later

from . import jobs

pytestmark = pytest.mark.slow

torch = Later("torch")
PROGRAM = Path(__file__).parent / "programs" / "generates.py"


def test_prefill_and_decode_of_each_request_after_the_first(tmp_path: Path) -> None:
    plain = jobs.run([sys.executable, PROGRAM])
    done = jobs.run([sys.executable, PROGRAM], tmp_path / "run")
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout == plain.stdout
    ppg = api.analyze(tmp_path / "run").ppg
    assert not [note for note in ppg.run.notes if "generate" in note]
    requests = requests_of(ppg.spans, 1)
    assert requests is not None
    assert requests.decode.tokens.tolist() == [5, 5, 5, 5, 5]  # the last two get their first token from the prefill
    assert requests.prefill.tokens.tolist() == [21] * 5
    assert requests.batch.tolist() == [3] * 5
    assert requests.uncached.tolist() == [False] * 3 + [True] * 2
    assert requests.prefill.threads.tolist()[:3] == requests.decode.threads.tolist()[:3] == [2, 1, 2]
    assert (requests.prefill.seconds > 0.0).all() and (requests.token_s > 0.0).all()


def test_a_class_is_left_as_it_was() -> None:
    from scalana.runtime.torch.sequences.generation import Generation

    class Own(torch.nn.Linear):
        def __call__(self, x):
            return super().__call__(x)

    class Inherited(torch.nn.Linear):
        pass

    own = Own.__call__
    for owner in (Own, Inherited):
        generation = Generation(import_module("torch.nn.modules.module"))
        generation._watch(owner)
        assert "__call__" in vars(owner)
        generation.forget()
    assert Own.__call__ is own and "__call__" not in vars(Inherited)
