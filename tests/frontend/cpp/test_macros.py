"""Macros, from the arms of conditions that have code."""

from __future__ import annotations

import textwrap

import pytest

from scalana.frontend.cpp.source.macros import conditions, includes, macros
from scalana.frontend.cpp.source.pragmas import omp_pragmas


def infer(source: str) -> dict[str, str]:
    """The macros of a source in which lines that end in ``;`` and a ``+`` have code."""
    text = textwrap.dedent(source).lstrip("\n")
    lines = [number for number, line in enumerate(text.split("\n"), 1) if line.endswith("; +")]
    return macros({"/a.c": text.encode()}, lambda: {"/a.c": lines})


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("#ifdef A", {"A": "1"}),
        ("#ifndef A", {}),
        ("#if A", {"A": "1"}),
        ("#if !A", {}),
        ("#if defined(A) && defined B", {"A": "1", "B": "1"}),
        ("#if defined(A) || defined(B)", {}),
        ("#if !(defined(A) || B)", {}),
        ("#if A == 3", {"A": "3"}),
        ("#if (A > 3)", {"A": "4"}),
        ("#if A /* why */ // and how", {"A": "1"}),
        ("#if A && \\\n    B", {"A": "1", "B": "1"}),
        ("#if __GNUC__ > 4", {}),
        ("#if _OPENMP", {}),
        ("#if 1", {}),
        ("#if FUNCTION(A)", {}),
    ],
)
def test_an_arm_with_code_was_compiled(condition: str, found: dict[str, str]) -> None:
    assert infer(f"{condition}\nx; +\n#endif\n") == found


def test_an_arm_without_code_beside_one_with_code_was_not() -> None:
    assert infer("#if !defined(A)\nx;\n#else\ny; +\n#endif\n") == {"A": "1"}


def test_an_arm_with_an_error_was_not_compiled() -> None:
    assert infer("#ifndef A\n#error set A\n#endif\n#if A\nx;\n#else\ny; +\n#endif\n") == {"A": "0"}


def test_nothing_follows_from_arms_without_code() -> None:
    assert infer("#ifdef A\nint x;\n#else\nint y;\n#endif\n") == {}


def test_an_inner_condition_counts_within_its_arm() -> None:
    assert infer("#ifdef A\n#ifdef B\nx; +\n#else\ny;\n#endif\n#else\n#ifdef C\n#endif\n#endif\n") == {
        "A": "1",
        "B": "1",
    }


def test_macros_that_the_source_defines_need_no_flag() -> None:
    assert infer("#define A 1\n#if A\nx; +\n#endif\n") == {}


def test_contradictions_leave_a_macro_alone() -> None:
    assert infer("#if A\nx; +\n#endif\n#if !A\ny; +\n#endif\n") == {}


def test_comments_and_strings_hold_no_directives() -> None:
    source = '/*\n#if A\n*/\nconst char *s = "\\\n#if B";\n// /*\n#if C\nx; +\n#endif\n'
    groups, _ = conditions(source.encode())
    assert [(group[0].condition, group[0].line) for group in groups] == [("C", 7)]


def test_what_a_source_includes() -> None:
    assert includes(b'#include "sub/x.h"\n  # include <y.h>\n// #include\n') == ["sub/x.h", "y.h"]


def test_directives_of_openmp() -> None:
    source = b'x\n#pragma omp parallel \\\n  for num_threads(3)\n  # pragma omp barrier\n_Pragma("omp single nowait")\n'
    found = [(pragma.line, pragma.end_line, pragma.text) for pragma in omp_pragmas(source)]
    assert found == [(2, 3, "#pragma omp parallel for"), (5, 5, "#pragma omp single")]


def test_lines_are_asked_for_only_where_they_tell_something() -> None:
    source = b"#ifndef HEADER_H\n#define HEADER_H\n#if __GNUC__\nint x;\n#endif\n#endif\n"

    def never() -> dict[str, list[int]]:
        raise AssertionError

    assert macros({"/a.h": source}, never) == {}
