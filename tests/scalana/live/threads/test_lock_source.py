"""What the source says of locks."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalana.live.threads.lock_source import asked, taken

PROGRAM = """\
def blocks():
    with A, self.b:
        with self.c:
            pass  # here: A self.b self.c
        pass  # here: A self.b


def on_the_way():
    A.acquire()
    B.acquire(timeout=1)
    if maybe:
        C.acquire()
    pass  # here: A
    B.acquire()
    pass  # here: A B
    A.release()
    pass  # here: B


def finally_releases():
    A.acquire()
    try:
        B.acquire()
        pass  # here: A B
    except ValueError:
        pass  # here: A
    finally:
        A.release()
    pass  # here:


def released_in_the_body():
    A.acquire()
    try:
        A.release()
    finally:
        pass  # here:


def in_turns():
    A.acquire()
    B.acquire()
    while True:
        pass  # here: B
        C.acquire()
        pass  # here: B C
        A.release()


def around():
    A.acquire()

    def inner():
        pass  # here:

    match inner:
        case 1:
            pass  # here: A
"""


def test_what_is_held_at_a_line(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    for line, text in enumerate(PROGRAM.splitlines(), 1):
        if "# here:" in text:
            held = [".".join(name) for name, _ in taken(str(file), line)]
            assert sorted(held) == text.partition("# here:")[2].split(), line
    assert taken(str(file), 4)[-1] == (("self", "c"), 3)
    assert list(taken(str(file), 13)) == [(("A",), 9)]


@pytest.mark.parametrize(
    ("line", "names"),
    [("with a.b as c, d: pass", {("a", "b"), ("d",)}), ("e.acquire()", {("e",)}), ("locks[0].acquire()", set())],
)
def test_what_a_line_asks_for(line: str, names: set[tuple[str, ...]], tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(line)
    assert set(asked(str(file), 1)) == names


def test_what_is_no_source_says_nothing(tmp_path: Path) -> None:
    assert asked(str(tmp_path / "none.py"), 1) == taken(str(tmp_path / "none.py"), 1) == []
    (tmp_path / "broken.py").write_text("with A:\n  (")
    assert taken(str(tmp_path / "broken.py"), 2) == []
