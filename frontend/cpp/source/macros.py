"""Which macros a program was compiled with, from the lines that have code.

Debug information keeps no ``-D`` (nor ``-I``), yet much of a parallel program may stand below ``#if USE_MPI``. The line
table tells which arms of such conditions were compiled: what must have been defined follows from that.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

_DIRECTIVE = re.compile(rb"^[ \t]*#[ \t]*(if|ifdef|ifndef|elif|elifdef|elifndef|else|endif|error|define)\b([^\n]*)")
_COMMENT = re.compile(rb"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)
_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)[>"]', re.MULTILINE)
_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass(slots=True)
class Arm:
    """One arm of a condition of the preprocessor."""

    condition: str
    """What must hold for it, given that no arm before it was taken; "1" for ``#else``."""
    line: int
    """Of its directive."""
    end_line: int = 0
    """Of the directive that ends it."""
    error: bool = False
    """Whether an ``#error`` stands directly in it."""


@dataclass(slots=True)
class Facts:
    """What is known about the macros of a translation unit."""

    defined: dict[str, bool] = field(default_factory=dict)
    value: dict[str, str] = field(default_factory=dict)
    truth: dict[str, bool] = field(default_factory=dict)
    doubtful: set[str] = field(default_factory=set)

    def learn(self, name: str, *, defined: bool | None = None, truth: bool | None = None, value: str = "") -> None:
        """Add one fact; names about which facts contradict each other become doubtful."""
        if defined is not None and self.defined.setdefault(name, defined) != defined:
            self.doubtful.add(name)
        if truth is not None and self.truth.setdefault(name, truth) != truth:
            self.doubtful.add(name)
        if value and self.value.setdefault(name, value) != value:
            self.doubtful.add(name)


def conditions(source: bytes) -> tuple[list[list[Arm]], set[str]]:
    """The conditions of a source, each as its arms, and the macros that it defines itself."""
    text = _COMMENT.sub(lambda match: b" " + b"\n" * match.group(0).count(b"\n"), source)
    found: list[list[Arm]] = []
    open_groups: list[list[Arm]] = []
    own: set[str] = set()
    lines = text.split(b"\n")
    number = 0
    while number < len(lines):
        first, line = number + 1, lines[number].rstrip(b"\r")
        while line.endswith(b"\\") and number + 1 < len(lines):
            number += 1
            line = line[:-1] + b" " + lines[number].rstrip(b"\r")
        number += 1
        match = _DIRECTIVE.match(line)
        if match is None:
            continue
        word, rest = match.group(1).decode(), match.group(2).decode("utf-8", "replace").strip()
        if word == "define":
            name = _NAME.match(rest)
            if name is not None:
                own.add(name.group(0))
        elif word == "error":
            if open_groups:
                open_groups[-1][-1].error = True
        elif word in ("if", "ifdef", "ifndef"):
            open_groups.append([Arm(_condition(word, rest), first)])
            found.append(open_groups[-1])
        elif open_groups:
            open_groups[-1][-1].end_line = first
            if word == "endif":
                open_groups.pop()
            else:
                open_groups[-1].append(Arm("1" if word == "else" else _condition(word[2:], rest), first))
    return [group for group in found if group[-1].end_line], own


def _condition(word: str, rest: str) -> str:
    if word in ("ifdef", "def"):
        return f"defined({rest})"
    if word in ("ifndef", "ndef"):
        return f"!defined({rest})"
    return rest


Conditions = tuple[list[list[Arm]], set[str]]


def macros(
    sources: Mapping[str, bytes],
    lines: Callable[[], Mapping[str, Iterable[int]]],
    read: Callable[[bytes], Conditions] = conditions,
) -> dict[str, str]:
    """The macros that were defined by flags, with their values.

    Args:
        sources: content of the user's files that went into a translation unit, by path.
        lines: tells the lines of them with code, by path; asked only if conditions depend on macros from outside.
        read: :func:`conditions`, or something that remembers them.
    """
    facts = Facts()
    own: set[str] = set()
    found_groups: list[tuple[str, list[Arm]]] = []
    for path, content in sources.items():
        groups, defines = read(content)
        own |= defines
        found_groups += [(path, group) for group in groups]
    tested = {n for _, group in found_groups for arm in group for n in _NAME.findall(arm.condition)}
    if all(name in own or name == "defined" or name.startswith("__") for name in tested):
        return {}
    code = {path: sorted(numbers) for path, numbers in lines().items() if path in sources}
    for path, group in found_groups:
        _judge(facts, group, code.get(path, []))
    found: dict[str, str] = {}
    for name in (*facts.defined, *facts.truth, *facts.value):
        if name in own or name in facts.doubtful or name.startswith("__") or name == "_OPENMP" or name in found:
            continue
        if name in facts.value:
            found[name] = facts.value[name]
        elif facts.truth.get(name):
            found[name] = "1"
        elif facts.defined.get(name):
            found[name] = "0" if facts.truth.get(name) is False else "1"
    return found


def _judge(facts: Facts, group: list[Arm], code: list[int]) -> None:
    taken = next((n for n, arm in enumerate(group) if _has_code(arm, code)), None)
    for number, arm in enumerate(group):
        if taken is not None and number == taken:
            _learn(facts, arm.condition, True)
            return
        if taken is not None or arm.error:
            _learn(facts, arm.condition, False)
        elif not arm.error:
            return  # nothing is known of this arm, and so nothing of those behind it


def _has_code(arm: Arm, code: list[int]) -> bool:
    first = bisect_right(code, arm.line)
    return first < len(code) and code[first] < arm.end_line


def _learn(facts: Facts, condition: str, truth: bool) -> None:
    """What follows for single macros from the truth of a condition; only what follows for certain."""
    text = _outer(condition.strip())
    for operator, holds in (("||", False), ("&&", True)):
        parts = _split(text, operator)
        if len(parts) > 1:
            if truth is holds:
                for part in parts:
                    _learn(facts, part, truth)
            return
    if text.startswith("!") and not text.startswith("!="):
        _learn(facts, text[1:], not truth)
        return
    match = re.fullmatch(r"defined\s*\(?\s*([A-Za-z_]\w*)\s*\)?", text)
    if match:
        facts.learn(match.group(1), defined=truth)
        return
    if re.fullmatch(r"[A-Za-z_]\w*", text):
        facts.learn(text, truth=truth)
        return
    match = re.fullmatch(r"([A-Za-z_]\w*)\s*(==|>=|>|!=)\s*(\d+)", text)
    if match:
        name, operator, number = match.group(1), match.group(2), int(match.group(3))
        if operator == "!=":
            operator, truth = "==", not truth
        if truth:
            facts.learn(name, value=str(number + 1 if operator == ">" else number))


def _outer(text: str) -> str:
    """Without parentheses around the whole."""
    while text.startswith("(") and text.endswith(")"):
        depth = 0
        for position, character in enumerate(text):
            depth += (character == "(") - (character == ")")
            if depth == 0 and position < len(text) - 1:
                return text
        text = text[1:-1].strip()
    return text


def _split(text: str, operator: str) -> list[str]:
    parts, depth, start, position = [], 0, 0, 0
    while position < len(text):
        character = text[position]
        depth += (character == "(") - (character == ")")
        if depth == 0 and text.startswith(operator, position):
            parts.append(text[start:position])
            position += len(operator)
            start = position
            continue
        position += 1
    return [*parts, text[start:]]


def includes(source: bytes) -> list[str]:
    """What the directives of a source include, as written."""
    return [match.group(1).decode("utf-8", "replace") for match in _INCLUDE.finditer(source)]
