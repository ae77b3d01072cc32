"""Lengths of sequences are noted in every step, from whatever argument says them, and change nothing."""

from __future__ import annotations

from collections import UserDict
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

from scalana.runtime.record.format import SPAN_TYPES
from tests.needs import Later

from . import jobs

pytestmark = pytest.mark.slow

torch = Later("torch")

STEPS, RANKS = 12, 2


def lengths(*args, names=(), **by_name):
    from scalana.runtime.torch.sequences.arguments import Reader

    return Reader(import_module("torch")).lengths(args, by_name, names)


def test_each_argument_that_says_lengths() -> None:
    tokens, hidden = torch.zeros(2, 8, dtype=torch.long), torch.zeros(2, 8, 4)
    bounds = torch.tensor([0, 3, 5, 16])
    positions = torch.tensor([[0, 1, 2, 0, 1, 0, 1, 2], [0, 1, 2, 3, 4, 5, 6, 7]])
    mask = torch.tensor([[1, 1, 1, 0, 0, 0, 0, 0], [1] * 8])
    packed = "cu_seqlens", [3, 2, 11]
    assert lengths(tokens, cu_seqlens=bounds) == packed
    assert lengths(tokens, cu_seq_lens_q=bounds.int()) == packed
    assert lengths(tokens, bounds, names=("x", "cu_seqlens_q")) == packed
    assert lengths(tokens, bounds) == packed  # its name is not known, but it can be nothing else
    assert lengths(tokens, [0, 3, 5, 16]) == packed
    assert lengths({"input_ids": tokens, "cu_seqlens": bounds}) == packed
    assert lengths(UserDict(input_ids=tokens, cu_seqlens=bounds)) == packed
    assert lengths(tokens, packed_seq_params=SimpleNamespace(cu_seqlens_q=bounds)) == packed
    assert lengths(tokens, seq_lens=torch.tensor([3, 8])) == ("lengths", [3, 8])
    assert lengths([torch.zeros(3), torch.zeros(8, 4)]) == ("sequences", [3, 8])
    assert lengths(input_ids=tokens, position_ids=positions) == ("position_ids", [3, 2, 3, 8])
    assert lengths(input_ids=tokens, attention_mask=mask) == ("attention_mask", [3, 8])
    assert lengths(hidden, key_padding_mask=mask == 0) == ("attention_mask", [3, 8])
    nested = torch.nested.nested_tensor([torch.zeros(3, 4), torch.zeros(8, 4)], layout=torch.jagged)
    assert lengths(nested) == ("sequences", [3, 8])


def test_parameters_are_those_of_the_module_that_others_wrap() -> None:
    """A compiled module has a length, and raises where what it holds has none."""
    from scalana.runtime.torch.sequences.calls import parameters

    class Inner(torch.nn.Module):
        def forward(self, tokens, cu_seqlens):
            return tokens

    class Wrapper(torch.nn.Module):
        def __init__(self, inner, name):
            super().__init__()
            self.add_module(name, inner)

        def __len__(self):
            raise TypeError("no length")

    compiled = Wrapper(Inner(), "_orig_mod")
    for module in (Inner(), compiled, Wrapper(compiled, "module")):
        assert parameters(module) == ("tokens", "cu_seqlens")


def test_the_shape_of_tokens_where_nothing_else_is_known() -> None:
    assert lengths(torch.zeros(2, 8, dtype=torch.long)) == ("shape", [8, 8])
    assert lengths(torch.zeros(2, 8, 4)) == ("shape", [8, 8])
    assert lengths(torch.zeros(8, dtype=torch.long)) == ("shape", [8])


def test_what_says_no_lengths() -> None:
    assert lengths(torch.zeros(2, 8)) is None  # features
    assert lengths(torch.zeros(2, 3, 8, 8)) is None  # pictures
    assert lengths(3, "text", None, labels=object()) is None


def test_values_of_a_device_are_never_read() -> None:
    away = torch.tensor([0, 3, 5, 16]).to("meta")
    assert lengths(torch.zeros(2, 8, dtype=torch.long), cu_seqlens=away) == ("shape", [8, 8])
    assert lengths(torch.zeros(2, 8, dtype=torch.long), attention_mask=torch.ones(2, 8, device="meta")) == (
        "shape",
        [8, 8],
    )


def test_no_operator_runs_where_somebody_watches_operators() -> None:
    mask = torch.tensor([[1, 1, 0], [1, 1, 1]])
    with torch.profiler.profile() as profile:
        assert lengths(torch.zeros(2, 3, dtype=torch.long), attention_mask=mask) == ("shape", [3, 3])
    assert not any("sum" in event.key for event in profile.key_averages())


def test_every_step_has_its_lengths_and_the_program_computes_the_same(tmp_path: Path) -> None:
    plain = jobs.forked(RANKS, "packed_lengths.py")
    recorded = jobs.forked(RANKS, "packed_lengths.py", record=tmp_path / "run")
    assert (recorded.returncode, recorded.stdout) == (plain.returncode, plain.stdout) == (0, plain.stdout)
    for rank, record in enumerate(jobs.ranks(tmp_path / "run")):
        found = {}
        for row in range(len(record.spans)):
            at = range(record.spans.last[row - 1] if row else 0, record.spans.last[row])
            said = {record.names[record.attributes.key[one]]: record.attributes.value[one] for one in at}
            if SPAN_TYPES[record.spans.type[row]] == "other" and "squares" in said:
                found[record.spans.step[row]] = sorted(said[str(place)] for place in range(3))
        # The first step begins before anything is known; steps are numbered from its end on.
        assert found == {step: sorted([3 + rank, 5, 20 - rank - step]) for step in range(1, STEPS)}


def test_sizes_of_arguments_and_no_lengths_of_edges() -> None:
    from scalana.runtime.torch.sequences.arguments import Reader

    reader = Reader(import_module("torch"))
    x, edges = torch.zeros(5, 4), torch.zeros(2, 7, dtype=torch.long)
    adjacency = torch.eye(5).to_sparse()
    assert reader.sizes((x, edges), {}, ("x", "edge_index")) == [("x", 20), ("edge_index", 14)]
    assert reader.sizes((x, 3, None), {"adj": adjacency}, ("x",)) == [("x", 20), ("adj", 5)]
    graph = SimpleNamespace(_store=SimpleNamespace(_mapping={"x": x, "edge_index": edges}))  # PyTorch Geometric's
    assert reader.sizes((graph,), {}, ("data",)) == [("x", 20), ("edge_index", 14)]
    own = SimpleNamespace(indptr=torch.tensor([0, 3, 7]), indices=torch.zeros(7), nodes=2, cu_seqlens_q=None)
    assert reader.sizes((own, x), {}, ("graph", "x")) == [("x", 20), ("indptr", 3), ("indices", 7)]
    assert reader.lengths((own, x), {}, ("graph", "x")) == reader.lengths((x,), {}, ("x",))
    assert lengths(x, edges, names=("x", "edge_index")) is None
    assert lengths(graph) is None
