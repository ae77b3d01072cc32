"""All functions and loops are in the graph, whatever construct they stand in: the compiler is the referee."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from scalana.graphs.structure.psg import VertexKind
from tests.frontend.cpp import referee
from tests.frontend.cpp.programs import build, needs_libclang
from tests.frontend.outline import write

pytestmark = [needs_libclang, pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")]

HEADER = """
    #pragma once
    #include <algorithm>
    #define EACH(i, n) for (int i = 0; i < (n); ++i)
    #define CHECK(x) do { if (!(x)) ++failed; } while (0)
    inline int failed = 0;
    inline int triangle(int n) { int s = 0; while (n > 0) s += n--; return s; }
    template <class T> struct Grid {
        T cells[8];
        T sum() const { T s{}; for (const T& cell : cells) s += cell; return s; }
        template <class F> void apply(F f) { EACH(i, 8) f(cells[i]); }
        struct Row {
            T* first;
            T largest() const { T m{}; for (int i = 0; i < 4; ++i) m = std::max(m, first[i]); return m; }
        };
        Row row(int number) { return Row{cells + 4 * number}; }
    };
    template <int N> int power(int x) { int p = 1; for (int i = 0; i < N; ++i) { p *= x; } return p; }
    struct Shape { virtual ~Shape(); virtual double area() const = 0; };
    """
SOURCE = """
    #include <cstdlib>
    #include <functional>
    #include <vector>
    #include "grid.hpp"

    Shape::~Shape() { for (int i = 0; i < 2; ++i) ++failed; }

    namespace {
    struct Square : Shape {
        explicit Square(double side) : side(side) { while (this->side > 100) this->side /= 2; }
        double area() const override { double a = 0; for (int i = 0; i < 3; ++i) a += side; return a * side / 3; }
        double side;
    };
    long digits(long n) { long d = 0; do { ++d; n /= 10; } while (n); return d; }
    int both(int n) { int s = 0; for (int i = 0; i < n; ++i) s += i; for (int i = n; i--;) s -= 2 * i; return s; }
    }

    namespace deep { inline namespace v1 {
    int spread(int n)
    try {
        int total = 0;
        for (int i = 0; i < n; ++i) {
            switch (i % 3) {
            case 0: while (total % 7) ++total; break;
            case 1: for (;;) { if (++total % 5 == 0) break; } break;
            default: if (n > 3) do --total; while (total > 50); else { goto out; }
            }
        }
    out:
        return total;
    } catch (...) {
        for (int i = 0; i < 2; ++i) ++failed;
        return 0;
    }
    } }

    static int parallel(std::vector<int>& data) {
        int sum = 0;
        const int n = (int)data.size();
    #pragma omp parallel
        {
    #pragma omp for nowait reduction(+ : sum) \\
        schedule(static)
            for (int i = 0; i < n; ++i)
                for (int j = 0; j < 2; ++j) sum += data[i];
    #pragma omp single
            while (data.size() < 10) data.push_back(1);
        }
    #pragma omp parallel for collapse(2)
        for (int i = 0; i < 2; ++i)
            for (int j = 0; j < 2; ++j) data[2 * i + j] = i;
    #pragma omp simd
        for (int i = 0; i < n; ++i) data[i] *= 2;
        return sum;
    }

    static int counted = [] { int c = 0; for (int i = 0; i < 4; ++i) c += i; return c; }();

    int main(int argc, char** argv) {
        Grid<int> whole{}; Grid<double> parts{};
        whole.apply([](int& cell) { for (int i = 0; i < 3; ++i) cell += i; });
        parts.apply([&](double& cell) { cell = argc; });
        CHECK(whole.sum() >= 0); CHECK(parts.sum() >= 0);
        std::vector<int> data(16, argc);
        std::sort(data.begin(), data.end(), [](int a, int b) { int k = 0; while (k < a) ++k; return k < b; });
        std::function<int(int)> twice = [](int x) { EACH(i, 2) x += i; return x; };
        Square square(argc);
        if (const char* text = std::getenv("FOR while do")) for (; *text; ++text) ++failed; // for (;;)
        /* while (0) { for } */
    #if 0
        for (;;) { }
    #elif defined(MORE)
        EACH(more, 3) ++failed;
    #endif
        return power<2>(argc) + power<3>(argc) + triangle(argc) + (int)digits(argc) + both(argc) + twice(argc)
            + deep::spread(argc) + parallel(data) + counted + whole.row(0).largest() + (int)square.area() + failed;
    }
    """


@pytest.mark.slow
@pytest.mark.parametrize("flags", [("-std=c++17",), ("-std=c++17", "-fopenmp", "-DMORE")], ids=["plain", "openmp"])
def test_all_functions_and_loops_are_there(tmp_path: Path, flags: tuple[str, ...]) -> None:
    write(tmp_path, {"main.cpp": SOURCE, "grid.hpp": HEADER})
    source = str(tmp_path / "main.cpp")
    psg = build([tmp_path / "main.cpp"], flags, uncalled=True)
    loops = {(v.place.file, v.place.line, v.place.column) for v in psg.walk() if v.kind is VertexKind.LOOP}
    functions = {(v.place.file, v.place.line) for v in psg.walk() if v.kind is VertexKind.FUNCTION}

    expected = referee.loops(source, flags, str(tmp_path))
    assert sum(expected.values()) == (28 if "-DMORE" in flags else 27)  # counted by hand
    found = Counter((file, line) for file, line, _ in loops)
    lines = Path(source).read_text().splitlines()
    parallel = {(source, number) for number, text in enumerate(lines, 1) if text.strip() == "#pragma omp parallel"}
    assert found - expected == Counter(parallel if "-fopenmp" in flags else ())  # a region that all threads run
    assert expected - found == Counter()

    compiled = referee.functions(source, flags, str(tmp_path))
    assert len(compiled) == 14
    assert {place: name for place, name in compiled.items() if place not in functions} == {}
    closures = {(source, number) for number, text in enumerate(lines, 1) if re.search(r"\[&?\](\(| \{)", text)}
    assert len(closures) == 5
    assert closures <= functions
