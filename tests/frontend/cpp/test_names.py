"""One name for one function, wherever its name comes from."""

from __future__ import annotations

import pytest

from scalana.frontend.cpp.names import bare_name, plain_name


@pytest.mark.parametrize(
    ("full", "plain"),
    [
        ("main", "main"),
        ("a::b<c<d>>::operator<<(int)", "a::b::operator<<"),
        ("ns::operator< <int>(ns::P<int> const&)", "ns::operator<"),
        ("P::operator bool() const", "P::operator bool"),
        ("std::pair<int, int> foo::bar<g(y)>(z)", "foo::bar"),
        ("V<double>::~V()", "V::~V"),
        ("main._omp_fn.0", "main"),
        ("solve(int) [clone .constprop.0]", "solve"),
        ("work.isra.0.part.3", "work"),
        ("(anonymous namespace)::f(int)", "(anonymous namespace)::f"),
        ("{anonymous}::f", "(anonymous namespace)::f"),
        ("main::{lambda(int)#1}::operator()(int) const", "main::<lambda>"),
        ("void each<main::{lambda(int)#2}>(int, main::{lambda(int)#2})", "each"),
        ("main::<lambda>", "main::<lambda>"),
        ("Table::operator()(int, int)", "Table::operator()"),
        ("Table::operator->()", "Table::operator->"),
    ],
)
def test_plain_names(full: str, plain: str) -> None:
    assert plain_name(full) == plain


def test_bare_names() -> None:
    assert bare_name("a::b::c") == "c"
    assert bare_name("c") == "c"
