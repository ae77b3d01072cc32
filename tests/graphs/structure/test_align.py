"""Vertices of two structure graphs are matched by structure, wherever their lines went."""

from __future__ import annotations

from pathlib import Path

from scalana.frontend.build import build_psg
from scalana.graphs.structure.align import align
from scalana.graphs.structure.psg import PSG, Place, VertexKind

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


def test_calls_behind_a_loop_that_was_put_in_are_the_same() -> None:
    """Samples add what plain code calls below it, and a loop divides plain code in two."""

    def sampled(divided: bool) -> tuple[PSG, dict[str, int]]:
        psg = PSG("job.py")
        main = psg.add(VertexKind.FUNCTION, Place("/job/job.py", 1, 9, 0, "main"), 0)
        steps = psg.add(VertexKind.LOOP, Place("/job/job.py", 2, 9, 4, "for step in range(8)"), main)
        block = psg.add(VertexKind.COMP, Place("/job/job.py", 3, 8, 8, "load()"), steps)
        calls = {"load": psg.add(VertexKind.CALL, Place("/job/job.py", 3, 3, -1, "load"), block)}
        if divided:
            psg.add(VertexKind.LOOP, Place("/job/job.py", 4, 5, 8, "for i in range(4)"), steps)
            block = psg.add(VertexKind.COMP, Place("/job/job.py", 6, 8, 8, "solve(rank)"), steps)
        calls["solve"] = psg.add(VertexKind.CALL, Place("/job/job.py", 6, 6, -1, "solve"), block)
        calls["all_reduce"] = psg.add(VertexKind.COMM, Place("/job/job.py", 7, 7, -1, "all_reduce"), block)
        psg.added.update(calls.values())
        return psg, calls

    (first, old), (second, new) = sampled(False), sampled(True)
    assert {name: int(align(second, first)[old[name]]) for name in old} == new
    assert {name: int(align(first, second)[new[name]]) for name in new} == old


PLAIN = """\
import torch.distributed as dist


def load(batch):
    for image in batch:
        image.read()


def solve(batch):
    for sweep in range(4):
        batch.relax()
    return batch


def main():
    for step in range(20):
        batch = load(step)
        total = solve(batch)
        dist.all_reduce(total)


main()
"""
WRAPPED = PLAIN.replace(
    """\
    for step in range(20):
        batch = load(step)
        total = solve(batch)
        dist.all_reduce(total)
""",
    """\
    for epoch in range(2):
        for step in range(10):
            batch = load(step)
            if step % 2:
                total = solve(batch)
            dist.all_reduce(total)
""",
)
METHODS = """\
import torch.distributed as dist


class Job:
    def load(self, batch):
        for image in batch:
            image.read()

    def solve(self, batch):
        for sweep in range(4):
            batch.relax()
        return batch

    def step(self, number):
        batch = self.load(number)
        return self.solve(batch)


def main():
    job = Job()
    for step in range(20):
        total = job.step(step)
        dist.all_reduce(total)


main()
"""
SPLIT = PLAIN.replace(
    """\
def solve(batch):
    for sweep in range(4):
        batch.relax()
    return batch
""",
    """\
def relax(batch):
    for sweep in range(4):
        batch.relax()


def solve(batch):
    relax(batch)
    return batch
""",
)


def pairs(tmp_path: Path, before: str, after: str) -> set[tuple[str, str]]:
    """Texts of what is matched, (earlier, later)."""
    first, second = graph(tmp_path / "a", before), graph(tmp_path / "b", after)
    found = enumerate(align(second, first).tolist())
    return {(first[old].place.name, second[new].place.name) for old, new in found if new > 0}


def test_code_is_found_in_a_new_loop_and_a_new_branch(tmp_path: Path) -> None:
    found = pairs(tmp_path, PLAIN, WRAPPED)
    assert {("image.read()", "image.read()"), ("batch.relax()", "batch.relax()")} <= found
    assert {("load", "load"), ("solve", "solve"), ("for sweep in range(4)", "for sweep in range(4)")} <= found
    assert found == {(new, old) for old, new in pairs(tmp_path, WRAPPED, PLAIN)}


def test_functions_that_became_methods_are_the_same_code(tmp_path: Path) -> None:
    found = pairs(tmp_path, PLAIN, METHODS)
    assert {("load", "Job.load"), ("solve", "Job.solve"), ("for image in batch", "for image in batch")} <= found
    assert "Job.step" not in {new for _, new in found}


def test_a_part_that_became_a_function_is_the_same_code(tmp_path: Path) -> None:
    found = pairs(tmp_path, PLAIN, SPLIT)
    assert {("solve", "solve"), ("for sweep in range(4)", "for sweep in range(4)")} <= found
    assert "relax" not in {new for _, new in found}


def test_a_renamed_function_whose_loop_was_edited_is_the_same(tmp_path: Path) -> None:
    found = pairs(tmp_path, PLAIN, PLAIN.replace("solve", "iterate").replace("range(4)", "range(8)"))
    assert {("solve", "iterate"), ("for sweep in range(4)", "for sweep in range(8)")} <= found


def test_functions_that_moved_to_another_file_are_the_same(tmp_path: Path) -> None:
    start, end = PLAIN.index("def load"), PLAIN.index("def main")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "parts.py").write_text(PLAIN[start:end])
    moved = PLAIN[:start] + "from parts import load, solve\n\n\n" + PLAIN[end:]
    assert {("load", "load"), ("solve", "solve"), ("batch.relax()", "batch.relax()")} <= pairs(tmp_path, PLAIN, moved)


def test_other_code_is_no_moved_code(tmp_path: Path) -> None:
    """Loops of one text, in other functions and with other contents, are not each other."""
    other = """\
def render(scene):
    for sweep in range(4):
        scene.draw()
        scene.flush()


def run():
    for frame in range(9):
        render(frame)


run()
"""
    assert pairs(tmp_path, PLAIN, other) <= {("<module>", "<module>"), ("main", "run")}
