"""What each construct of C and C++ becomes. One feature, one claim."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalana.graphs.structure.psg import VertexKind
from tests.frontend.cpp.programs import graph, needs_libclang
from tests.frontend.outline import expect, outline

pytestmark = needs_libclang


def main_of(folder: Path, body: str, before: str = "", *flags: str, name: str = "main.cpp") -> str:
    """The outline of a ``main`` with this body."""
    return outline(graph(folder, f"{before}\nint main() {{\n{body}\n}}\n", *flags, name=name))


def test_all_kinds_of_loops(tmp_path: Path) -> None:
    body = """
    for (int i = 0; i < 3; i++) ;
    while (work()) { }
    do { work(); } while (work() > 1);
    int a[3]; for (int x : a) { }
    """
    assert main_of(tmp_path, body, "#include <stdlib.h>\nstatic int work() { return rand(); }") == expect("""
        loop for (int i = 0; i < 3; i++)
        loop while (work())
          function work
        loop do
          function work
          function work
        loop for (int x : a)
        """)


def test_two_loops_in_one_line_differ_by_their_columns(tmp_path: Path) -> None:
    psg = graph(tmp_path, "int main() { for (;;) { } for (;;) { } }\n")
    loops = [vertex.place for vertex in psg.walk() if vertex.kind is VertexKind.LOOP]
    assert [(place.line, place.column) for place in loops] == [(1, 13), (1, 26)]


def test_nested_loops_nest(tmp_path: Path) -> None:
    assert main_of(tmp_path, "for (int i = 0; i < 3; i++) while (i) do i--; while (i);") == expect("""
        loop for (int i = 0; i < 3; i++)
          loop while (i)
            loop do
        """)


def test_a_jump_back_makes_a_loop(tmp_path: Path) -> None:
    source = """int f(int x) { return x; }
    int main() {
        int k = 0;
        f(0);
    again:
        k++;
        if (f(k) < 3)
            goto again;
        f(9);
    }
    """
    psg = graph(tmp_path, source)
    assert outline(psg, stretches=True) == expect("""
        comp 3-4
        function f
          comp 1-1
        loop again:
          comp 6-6
          branch if (f(k) < 3)
            function f
              comp 1-1
            comp 8-8
        comp 9-9
        function f
          comp 1-1
        """)
    [loop] = [vertex.place for vertex in psg.walk() if vertex.kind is VertexKind.LOOP]
    assert (loop.line, loop.end_line) == (5, 8)


def test_a_jump_forward_makes_none(tmp_path: Path) -> None:
    body = "int k = f(1);\nif (k) goto out;\nf(2);\nout: f(3);"
    assert main_of(tmp_path, body, "int f(int x) { return x; }").count("loop") == 0


def test_jumps_back_nest_and_cross(tmp_path: Path) -> None:
    before = "void f(int) { }"
    assert main_of(
        tmp_path, "outer: f(1);\ninner: f(2);\nif (x) goto inner;\nif (x) goto outer;\nf(3);", f"{before} int x;"
    ) == expect("""
        loop outer:
          function f
          loop inner:
            function f
            branch if (x)
          branch if (x)
        function f
        """)
    assert main_of(
        tmp_path, "one: f(1);\ntwo: f(2);\nif (x) goto one;\nif (x) goto two;\nf(3);", f"{before} int x;"
    ) == expect("""
        loop one:
          function f
          loop two:
            function f
            branch if (x)
            branch if (x)
        function f
        """)


def test_jumps_back_out_of_blocks_and_in_arms_of_switch(tmp_path: Path) -> None:
    body = """
    next: switch (x) {
    case 0: retry: f(0); if (x) goto retry; break;
    default: for (;;) { f(1); if (x) goto next; } }
    { f(2); deep: f(3); }
    if (x) goto deep;
    """
    assert main_of(tmp_path, body, "void f(int) { }\nint x;") == expect("""
        loop next:
          branch case 0:
            loop retry:
              function f
              branch if (x)
          branch default:
            loop for (;;)
              function f
              branch if (x)
        loop { f(2)
          function f
          function f
          branch if (x)
        """)


def test_the_statement_macro_is_no_loop(tmp_path: Path) -> None:
    before = "int f(int);\n#define CHECK(x) do { if (f(x)) f(0); } while (0)"
    assert main_of(tmp_path, "CHECK(1);", before) == "branch CHECK(1)\n  call f\n  call f"


def test_a_loop_of_a_macro_is_where_the_macro_is_used(tmp_path: Path) -> None:
    psg = graph(tmp_path, "#define EACH(i, n) for (int i = 0; i < n; i++)\nint main() {\n  EACH(k, 3) { }\n}\n")
    assert [(v.place.line, v.place.column) for v in psg.walk() if v.kind is VertexKind.LOOP] == [(3, 2)]


def test_arms_of_if_are_siblings(tmp_path: Path) -> None:
    body = "if (int q = f(1)) f(2); else if (q > 3) { f(4); } else { f(5); }"
    assert main_of(tmp_path, body, "int f(int x) { return x; }") == expect("""
        branch if (int q = f(1))
          function f
          function f
        branch else if (q > 3)
          function f
        branch else
          function f
        """)


def test_if_with_an_initializer(tmp_path: Path) -> None:
    body = "if (int q = f(1); q > 2) { for (;;) { } } else { while (q) { } }"
    assert main_of(tmp_path, body, "int f(int x) { return x; }", "-std=c++17") == expect("""
        branch if (int q = f(1); q > 2)
          function f
          loop for (;;)
        branch else
          loop while (q)
        """)


def test_arms_of_switch_begin_with_their_labels(tmp_path: Path) -> None:
    body = (
        "int k = 3;\nswitch (k) {\ncase 0:\ncase 1: f(); break;\ncase 2: k++;\nwhile (k) { }\nbreak;\ndefault: f(); }"
    )
    assert main_of(tmp_path, body, "void f() { }") == expect("""
        branch case 0:
          function f
        branch case 2:
          loop while (k)
        branch default:
          function f
        """)


def test_handlers_are_branches_and_the_body_of_try_is_none(tmp_path: Path) -> None:
    body = "try { f(); } catch (int) { f(); f(); } catch (...) { }"
    assert main_of(tmp_path, body, "void f() { }") == expect("""
        function f
        branch catch (int)
          function f
          function f
        branch catch (...)
        """)


def test_parts_of_expressions_that_may_be_left_out(tmp_path: Path) -> None:
    body = "int k = f(0) ? f(1) : 2; k = f(3) && f(4);"
    assert main_of(tmp_path, body, "int f(int x) { return x; }") == expect("""
        function f
        branch f(1)
          function f
        function f
        branch f(4)
          function f
        """)


def test_calls_are_in_order_of_evaluation(tmp_path: Path) -> None:
    before = "int a() { return 1; }\nint b(int) { return 2; }\nint c(int, int) { return 3; }"
    assert main_of(tmp_path, "c(b(a()), a());", before) == "function a\nfunction b\nfunction a\nfunction c"


def test_constructors_destructors_and_delete(tmp_path: Path) -> None:
    before = "struct G { G() { while (false) { } } ~G() { for (;;) { } } };\nstruct Holder { G inside; };"
    assert main_of(tmp_path, "{ Holder h; }\nG *p = new G; delete p;", before) == expect("""
        function G::G
          loop while (false)
        function G::~G
          loop for (;;)
        function G::G
          loop while (false)
        function G::~G
          loop for (;;)
        """)


def test_variables_are_destroyed_at_the_end_of_their_block_last_one_first(tmp_path: Path) -> None:
    before = "struct A { ~A() { } };\nstruct B { ~B() { } };\nvoid f() { }"
    assert main_of(tmp_path, "{ A a; B b; f(); } f();", before) == (
        "function f\nfunction B::~B\nfunction A::~A\nfunction f"
    )


def test_member_initializers_belong_to_the_constructor(tmp_path: Path) -> None:
    before = "int f() { return 1; }\nstruct S { int a; S() : a(f()) { } };"
    assert main_of(tmp_path, "S s;", before) == "function S::S\n  function f"


def test_operators_and_conversions_are_calls(tmp_path: Path) -> None:
    before = """
    namespace ns { struct P {
        P operator+(const P &o) const { for (;;) { } return o; }
        operator bool() const { return true; }
        int operator[](int i) const { return i; }
    }; }
    """
    assert main_of(tmp_path, "ns::P p, q; if (p + q) { } p[1];", before) == expect("""
        branch if (p + q)
          function ns::P::operator+
            loop for (;;)
          function ns::P::operator bool
        function ns::P::operator[]
        """)


def test_lambdas_are_functions_where_they_are_called(tmp_path: Path) -> None:
    assert main_of(tmp_path, "auto f = [](int k) { while (k) { } };\nif (true) f(1);") == expect("""
        branch if (true)
          function main::<lambda>
            loop while (k)
        """)


def test_each_lambda_that_a_template_is_given_has_an_instantiation(tmp_path: Path) -> None:
    before = "template <class F> void each(int n, F f) { for (int i = 0; i < n; i++) f(i); }"
    assert main_of(
        tmp_path, "each(3, [](int) { while (1) { } });\neach(3, [](int) { do { } while (1); });", before
    ) == expect(
        """
        function each
          loop for (int i = 0; i < n; i++)
            function main::<lambda>
              loop while (1)
        function each
          loop for (int i = 0; i < n; i++)
            function main::<lambda>
              loop do
        """
    )


def test_generic_lambdas(tmp_path: Path) -> None:
    before = "void f(int) { }\nvoid f(double) { for (;;) { } }"
    assert main_of(tmp_path, "auto g = [](auto x) { f(x); };\ng(1); g(1.0);", before) == expect("""
        function main::<lambda>
          function f
        function main::<lambda>
          function f
            loop for (;;)
        """)


def test_functions_that_the_library_calls(tmp_path: Path) -> None:
    before = "#include <algorithm>\n#include <vector>\nstatic void twice(int &x) { while (x) { } }"
    body = """
    std::vector<int> v;
    std::for_each(v.begin(), v.end(), twice);
    std::sort(v.begin(), v.end(), [](int a, int b) { for (;;) { } return a < b; });
    """
    assert main_of(tmp_path, body, before) == expect("""
        function twice
          loop while (x)
        function main::<lambda>
          loop for (;;)
        """)


def test_what_the_library_makes_and_destroys(tmp_path: Path) -> None:
    before = """
    #include <memory>
    #include <vector>
    struct Solver { explicit Solver(int n) { for (;;) { } } ~Solver() { while (1) { } } };
    """
    body = "{ auto p = std::make_unique<Solver>(3); }\n{ std::vector<Solver> v; v.emplace_back(3); }"
    lines = main_of(tmp_path, body, before, "-std=c++17").splitlines()
    assert lines[:4] == ["function Solver::Solver", "  loop for (;;)", "function Solver::~Solver", "  loop while (1)"]
    assert lines[4:6] == ["function Solver::Solver", "  loop for (;;)"]
    assert lines[-2:] == ["function Solver::~Solver", "  loop while (1)"]


def test_comparisons_and_hashes_of_containers(tmp_path: Path) -> None:
    before = """
    #include <map>
    struct Key { int k; bool operator<(const Key &o) const { for (;;) { } return k < o.k; } };
    """
    assert main_of(tmp_path, "std::map<Key, int> m; m[Key{1}] = 2;", before) == expect("""
        function Key::operator<
          loop for (;;)
        """)


def test_calls_of_the_system_are_no_vertices(tmp_path: Path) -> None:
    assert main_of(tmp_path, 'printf("%d", abs(-1));', "#include <cstdio>\n#include <cstdlib>") == ""


def test_functions_that_nobody_defines_stay_calls(tmp_path: Path) -> None:
    assert main_of(tmp_path, "solve(3);", "void solve(int);") == "call solve"


def test_templates_are_resolved_in_each_instantiation(tmp_path: Path) -> None:
    before = """
    void work(int) { for (;;) { } }
    void work(double) { while (1) { } }
    template <class T> struct Box { T value; void open() { work(value); } };
    """
    assert main_of(tmp_path, "Box<int> a; a.open(); Box<double> b; b.open();", before) == expect("""
        function Box::open
          function work
            loop for (;;)
        function Box::open
          function work
            loop while (1)
        """)


def test_templates_that_nobody_instantiates_are_shown_once(tmp_path: Path) -> None:
    source = "template <class T> void used(T t) { while (t) { } }\ntemplate <class T> void idle(T t) { for (;;) { } }\n"
    psg = graph(tmp_path, source + "int main() { used(1); }\n", uncalled=True)
    names = [psg[child].place.name for child in psg[0].children]
    assert names == ["main", "idle"]
    assert sum(vertex.kind is VertexKind.LOOP for vertex in psg.walk()) == 2


def test_statement_expressions_of_gnu_c(tmp_path: Path) -> None:
    body = "int k = ({ int s = 0; for (int i = 0; i < 3; i++) s += i; s; }); return k;"
    assert main_of(tmp_path, body, name="main.c") == "loop for (int i = 0; i < 3; i++)"


def test_static_initialization_runs_before_main(tmp_path: Path) -> None:
    psg = graph(tmp_path, "int f() { for (;;) { } return 1; }\nint global = f();\nint main() { }\n")
    assert [psg[child].place.name for child in psg[0].children] == ["<static initialization>", "main"]
    assert outline(psg) == "function f\n  loop for (;;)"


def test_recursion_is_a_back_edge(tmp_path: Path) -> None:
    source = (
        "int odd(int);\nint even(int n) { return n == 0 || odd(n - 1); }\nint odd(int n) { return n && even(n - 1); }\n"
    )
    assert outline(graph(tmp_path, source + "int main() { even(4); }\n")) == expect("""
        function even
          branch odd(n - 1)
            function odd
              branch even(n - 1)
                call even -> even
        """)


COROUTINE = """
#include <coroutine>
struct Task { struct promise_type {
    Task get_return_object() { return {}; }
    std::suspend_never initial_suspend() { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() { }
    void unhandled_exception() { }
}; };
Task co(int n) { for (int i = 0; i < n; i++) co_await std::suspend_never{}; }
"""


def test_bodies_of_coroutines(tmp_path: Path) -> None:
    assert main_of(tmp_path, "co(3);", COROUTINE, "-std=c++20") == "function co\n  loop for (int i = 0; i < n; i++)"


def test_statements_with_attributes(tmp_path: Path) -> None:
    body = "int x = 3;\nif (x) [[likely]] { for (;;) { } } else [[unlikely]] while (x) { }"
    assert main_of(tmp_path, body, "", "-std=c++20") == expect("""
        branch if (x)
          loop for (;;)
        branch else
          loop while (x)
        """)


def test_what_is_never_evaluated_is_not_called(tmp_path: Path) -> None:
    before = "int f() { for (;;) { } return 1; }"
    assert main_of(tmp_path, "return sizeof(f()) + noexcept(f());", before) == ""


@pytest.mark.slow
def test_what_a_range_is_made_of_runs_in_its_loop(tmp_path: Path) -> None:
    before = "#include <ranges>\n#include <vector>"
    body = "std::vector<int> v;\nfor (int x : v | std::views::filter([](int i) { while (i) { } return true; })) { }"
    lines = main_of(tmp_path, body, before, "-std=c++20").splitlines()
    assert lines[1:] == ["  function main::<lambda>", "    loop while (i)"]


def test_the_kinds_of_if_constexpr_are_told_apart_by_instantiation(tmp_path: Path) -> None:
    before = "template <class T> void f(T t) { if constexpr (sizeof(T) == 8) { for (;;) { } } else { while (t) { } } }"
    assert "loop for (;;)" in main_of(tmp_path, "f(1.0);", before, "-std=c++17")
    assert "loop while (t)" in main_of(tmp_path, "f(1);", before, "-std=c++17")


def test_names_of_places(tmp_path: Path) -> None:
    source = (
        "namespace a { namespace { struct S { void m() { } }; } }\nvoid\nf(int) { a::S().m(); }\nint main() { f(1); }\n"
    )
    psg = graph(tmp_path, source)
    places = {vertex.place.name: vertex.place for vertex in psg.walk() if vertex.kind is VertexKind.FUNCTION}
    assert list(places) == ["main", "f", "a::(anonymous namespace)::S::m"]
    assert (places["f"].line, places["f"].end_line, places["f"].file) == (3, 3, str(tmp_path / "main.cpp"))
    sites = [vertex.site.line for vertex in psg.walk() if vertex.site is not None]
    assert sites == [4, 3]


def test_regions_of_openmp_are_loops(tmp_path: Path) -> None:
    body = """
    #pragma omp parallel for reduction(+ : s) \\
        schedule(static)
    for (int i = 0; i < 3; i++) s += i;
    #pragma omp parallel
    {
        #pragma omp single
        s++;
        #pragma omp for
        for (int i = 0; i < 3; i++) { }
        #pragma omp barrier
    }
    #if 0
    #pragma omp parallel
    #endif
    s--;
    """
    assert main_of(tmp_path, f"int s = 0;{body}", "", "-fopenmp") == expect("""
        loop #pragma omp parallel for
        loop #pragma omp parallel
          branch #pragma omp single
          loop #pragma omp for
        """)


def test_without_openmp_its_directives_are_comments(tmp_path: Path) -> None:
    assert main_of(tmp_path, "#pragma omp parallel\n{ }\n#pragma omp parallel for\nfor (;;) { }") == "loop for (;;)"


def test_code_for_openmp_alone_is_read(tmp_path: Path) -> None:
    body = "#ifdef _OPENMP\nfor (int i = 0; i < omp_get_max_threads(); i++) { }\n#endif"
    before = "#ifdef _OPENMP\n#include <omp.h>\n#endif"
    assert main_of(tmp_path, body, before, "-fopenmp") == "loop for (int i = 0; i < omp_get_max_threads(); i++)"


def test_stretches_of_code_between_are_kept(tmp_path: Path) -> None:
    source = "int main() {\n  int a = 1;\n  a += 2;\n  for (;;) { a++; }\n  a -= 1;\n  return a;\n}\n"
    assert outline(graph(tmp_path, source), stretches=True) == expect("""
        comp 2-3
        loop for (;;)
          comp 4-4
        comp 5-6
        """)
