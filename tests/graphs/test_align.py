"""Vertices of two structure graphs are matched by structure, wherever their lines went."""

from __future__ import annotations

from pathlib import Path

from scalana.frontend.build import build_psg
from scalana.graphs.align import align
from scalana.graphs.psg import PSG, Place, VertexKind

BEFORE = """\
import torch.distributed as dist


def load(batch):
    return sorted(batch)


def step(batch):
    for image in batch:
        load(image)
    dist.all_reduce(batch)
    dist.all_reduce(batch)


def main():
    for batch in range(10):
        step(batch)
    dist.barrier()


main()
"""


def graph(folder: Path, source: str) -> PSG:
    file = folder / "job.py"
    folder.mkdir(exist_ok=True)
    file.write_text(source)
    return build_psg([str(file)])


def matched_names(reference: PSG, other: PSG) -> dict[str, str]:
    """Text of every vertex of ``other`` that has a partner, and its partner's."""
    pairs = enumerate(align(reference, other).tolist())
    return {other[theirs].place.name: reference[mine].place.name for theirs, mine in pairs if mine > 0}


def test_a_graph_matches_itself(tmp_path: Path) -> None:
    psg = graph(tmp_path, BEFORE)
    assert align(psg, psg).tolist() == list(range(len(psg)))


def test_lines_may_move_and_the_folder_too(tmp_path: Path) -> None:
    first, second = graph(tmp_path / "a", BEFORE), graph(tmp_path / "b", "\n\n# a comment\n" + BEFORE)
    assert len(first) == len(second) > 8
    assert align(first, second).tolist() == list(range(len(first)))


def test_new_code_has_no_partner_and_old_code_keeps_its_own(tmp_path: Path) -> None:
    changed = BEFORE.replace("    dist.barrier()\n", "    for extra in range(3):\n        dist.barrier()\n")
    first, second = graph(tmp_path / "a", BEFORE), graph(tmp_path / "b", changed)
    result = align(first, second).tolist()
    new = [vertex.index for vertex in second.vertices if vertex.place.name == "for extra in range(3)"]
    assert len(new) == 1 and result[new[0]] == -1
    kept = [vertex.index for vertex in second.vertices if vertex.place.name == "for image in batch"]
    assert first[result[kept[0]]].place.name == "for image in batch"
    partners = [mine for mine in result if mine >= 0]
    assert len(partners) == len(set(partners))


def test_an_edited_loop_is_the_same_loop(tmp_path: Path) -> None:
    changed = BEFORE.replace("for image in batch", "for image in reversed(batch)")
    names = matched_names(graph(tmp_path / "a", BEFORE), graph(tmp_path / "b", changed))
    assert names["for image in reversed(batch)"] == "for image in batch"


def test_equal_siblings_are_matched_in_order(tmp_path: Path) -> None:
    psg = graph(tmp_path, BEFORE)
    calls = [vertex.index for vertex in psg.vertices if vertex.place.name == "dist.all_reduce"]
    assert len(calls) == 2
    result = align(psg, graph(tmp_path, "\n" + BEFORE))
    assert result[calls].tolist() == calls


def test_what_samples_added_is_matched_by_its_place() -> None:
    def sampled(names: list[tuple[str, int]]) -> PSG:
        psg = PSG("job.py")
        main = psg.add(VertexKind.FUNCTION, Place("/job/job.py", 1, 9, 0, "main"), 0)
        for name, line in names:
            psg.added.add(psg.add(VertexKind.CALL, Place("/job/job.py", line, line, -1, name), main))
        return psg

    first = sampled([("import", 3), ("read", 5), ("import", 4)])
    second = sampled([("import", 4), ("import", 3), ("write", 7)])
    assert align(first, second).tolist() == [0, 1, 4, 2, -1]
