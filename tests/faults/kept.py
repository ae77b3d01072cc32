"""What earlier sittings found: a file that grows by a line a trial, so that many runs can be made in several parts."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from .trial import ROOT, Judged, Trial

_FILE = "results.jsonl"
_SOURCES = ("runtime", "scalana/job", "scalana/commands/run.py", "tests/faults")
"""What is in a run: another state of these makes earlier results those of another program."""
_SUFFIXES = frozenset((".py", ".c", ".h"))


def state_of_sources(root: Path = ROOT) -> str:
    """A short name for what is tried: it differs where a source does."""
    summed = hashlib.sha256()
    for file in sorted(found for name in _SOURCES for found in _files(root / name)):
        summed.update(str(file.relative_to(root)).encode() + b"\0" + file.read_bytes() + b"\0")
    return summed.hexdigest()[:12]


def _files(path: Path) -> Iterable[Path]:
    return [path] if path.is_file() else (file for file in path.rglob("*") if file.suffix in _SUFFIXES)


class Kept:
    """The results in a folder.

    Args:
        folder: where they are kept; made if it is missing.
        state: of the sources; results of another one are not counted.
        of_any_state: unless they are wanted too.
    """

    def __init__(self, folder: Path, state: str, of_any_state: bool = False) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = folder / _FILE
        self._state = state
        self._of_any_state = of_any_state

    def results(self) -> list[Judged]:
        """What is known already."""
        found = [json.loads(line) for line in self._lines()]
        return [_judged(one) for one in found if self._of_any_state or one["state"] == self._state]

    def _lines(self) -> list[str]:
        """All lines; one that was not written to its end, because a sitting was killed, is taken away."""
        if not self._file.exists():
            return []
        lines = self._file.read_text(encoding="utf-8").split("\n")
        if lines.pop():
            self._file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return lines

    def add(self, judged: Judged) -> None:
        """Keep one more."""
        line = json.dumps({"state": self._state, **asdict(judged)})
        with self._file.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")


def _judged(found: dict[str, object]) -> Judged:
    values = {name: value for name, value in found.items() if name not in ("state", "trial", "wrong")}
    return Judged(trial=Trial(**found["trial"]), wrong=tuple(found["wrong"]), **values)  # type: ignore[arg-type]


def split(trials: Sequence[Trial], known: Sequence[Judged]) -> tuple[list[Judged], list[Trial]]:
    """What is known of some trials, and those of which nothing is. The same one may be tried several times."""
    results: dict[Trial, list[Judged]] = {}
    for one in known:
        results.setdefault(one.trial, []).append(one)
    used: Counter[Trial] = Counter()
    found, missing = [], []
    for trial in trials:
        if used[trial] < len(results.get(trial, ())):
            found.append(results[trial][used[trial]])
            used[trial] += 1
        else:
            missing.append(trial)
    return found, missing
