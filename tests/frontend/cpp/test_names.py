"""One name for one function, wherever its name comes from."""

from __future__ import annotations

import pytest

from scalana.frontend.cpp.binary import demangling
from scalana.frontend.cpp.names import plain_name


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


@pytest.mark.parametrize(
    ("symbol", "name", "without_runtime"),
    [
        ("_ZNSt6thread4joinEv", "std::thread::join", "_ZNSt6thread4joinEv"),
        ("_ZN4mesh6refineEi", "mesh::refine", "mesh::refine"),
        ("_ZL5localv", "local", "local"),
        ("_ZN12_GLOBAL__N_14stepEv", "(anonymous namespace)::step", "(anonymous namespace)::step"),
        ("_Z5solveIdEvT_", "solve", "solve"),
        ("_ZNKSt6vectorIiSaIiEE4sizeEv", "std::vector::size", "_ZNKSt6vectorIiSaIiEE4sizeEv"),
        ("_Zbroken", "_Zbroken", "_Zbroken"),
        ("main", "main", "main"),
    ],
)
def test_symbols_are_demangled_with_and_without_a_runtime(monkeypatch, symbol, name, without_runtime):
    assert demangling._runtime() is not None
    assert plain_name(demangling.demangled(symbol)) == name
    monkeypatch.setattr(demangling, "_RUNTIMES", ("libnothing.so.0",))
    demangling._runtime.cache_clear()
    assert demangling._runtime() is None
    assert plain_name(demangling.demangled(symbol)) == without_runtime
    demangling._runtime.cache_clear()
