"""Phases and trajectories in a record: those that a program marks, and those of trainers that know nothing of it."""

from __future__ import annotations

from pathlib import Path

from scalana.runtime.record.format import SPAN_TYPE, ProcessRecord

from . import jobs

MARKS = """
import scalana

@scalana.rl.phase("reward")
def score():
    return 5

with scalana.rl.phase("rollout", role="rollout"):
    with scalana.rl.trajectory(17, group="g", prompt_tokens=9, lane="slot 0") as t:
        t.know(tokens=3)
    mark = scalana.rl.trajectory("b", tokens=2).begin()
    mark.end(finished="length")
    mark.end()
    scalana.rl.trajectory("never begun").end()
assert score() == 5
with scalana.rl.weights(version=4):
    pass
"""

TRAINER = """
import sys, types

# A library as it is known, and one whose inner parts have other names by now. Both are found by the import system.
import importlib.abc, importlib.machinery
SOURCES = {
    "codetiming": '''
class Timer:
    def __init__(self, name=None):
        self.name, self.calls = name, []
    def start(self):
        self.calls.append("start")
    def stop(self):
        self.calls.append("stop")
        return 2.5
    def __enter__(self):
        self.start()
        return self
    def __exit__(self, *error):
        self.stop()
''',
    "trl": "", "trl.extras": "", "trl.trainer": "",
    "trl.extras.profiling": "class SomethingElse: pass",
    "trl.trainer.grpo_trainer": '''
class GRPOTrainer:
    class state: global_step = 2
    class accelerator: process_index = 1
    def training_step(self, x):
        return self._generate_single_turn([[1, 2], [1, 2, 3]], None)
    def _generate_single_turn(self, prompts, images):
        return [[4], [5, 6, 7]], None
class Broken(GRPOTrainer):
    state = None
''',
    "trl.trainer.rloo_trainer": "class RLOOTrainer: pass",
}
class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        if name in SOURCES:
            return importlib.machinery.ModuleSpec(name, self, is_package=name in ("trl", "trl.extras", "trl.trainer"))
    def create_module(self, spec):
        return None
    def exec_module(self, module):
        exec(SOURCES[module.__name__], module.__dict__)
sys.meta_path.append(Finder())

import codetiming
with codetiming.Timer("gen") as timer:
    with codetiming.Timer("inner"):
        pass
assert timer.calls == ["start", "stop"] and codetiming.Timer("x").stop() == 2.5
with codetiming.Timer():
    pass
import trl.extras.profiling
from trl.trainer.grpo_trainer import Broken, GRPOTrainer
import trl.trainer.rloo_trainer
answers = [[4], [5, 6, 7]]
assert GRPOTrainer().training_step(1) == (answers, None)
assert GRPOTrainer.training_step.__name__ == "training_step"
assert Broken().training_step(1) == (answers, None)
print("done")
"""


def recorded(program: str, folder: Path) -> tuple[ProcessRecord, str]:
    source = folder / "program.py"
    source.write_text(program)
    done = jobs.run([jobs.sys.executable, source], folder / "run")
    assert done.returncode == 0, done.stderr
    (record,) = (folder / "run" / "records").glob("*.rec")
    return ProcessRecord.read(record), done.stdout


def names(record: ProcessRecord, kind: str) -> list[str]:
    rows = record.spans
    return sorted(
        record.names[name]
        for name, number in zip(rows.name.tolist(), rows.type.tolist(), strict=True)
        if number == SPAN_TYPE[kind]
    )


def test_marks_of_a_program(tmp_path: Path) -> None:
    record, _ = recorded(MARKS, tmp_path)
    assert names(record, "phase") == ["reward", "rollout", "weight_sync"]
    assert names(record, "trajectory") == ["trajectory"] * 2
    texts = set(record.names)
    assert {"id", "group", "prompt_tokens", "tokens", "finished", "role", "version"} <= texts
    assert "never begun" not in texts


def test_marks_of_trainers_that_know_nothing_of_it(tmp_path: Path) -> None:
    record, out = recorded(TRAINER, tmp_path)
    assert out == "done\n"
    assert names(record, "phase") == ["gen", "inner", "training_step", "training_step"]
    assert names(record, "trajectory") == ["trajectory"] * 2
    notes = " ".join(record.notes)
    assert "ProfilingContext has changed" in notes
    assert "RLOOTrainer has no training_step" in notes and "no _generate_single_turn" in notes
    assert "incomplete: AttributeError" in notes


def test_nothing_is_marked_where_nothing_is_recorded(tmp_path: Path) -> None:
    for program in (MARKS, TRAINER):
        source = tmp_path / "program.py"
        source.write_text(f"import sys; sys.path.insert(0, {str(jobs.ROOT)!r})\n" + program)
        assert jobs.run([jobs.sys.executable, source]).returncode == 0
