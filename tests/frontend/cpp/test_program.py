"""What calls lead to, over translation units; what is decided by samples later; what communicates."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalana.graphs.structure.psg import VertexKind
from scalana.runtime.operations import BY_NAME
from tests.frontend.cpp.programs import build, graph, needs_libclang
from tests.frontend.outline import expect, outline, write

pytestmark = needs_libclang

MPI = "#include <mpi.h>\n#define W MPI_COMM_WORLD\n#define S MPI_STATUS_IGNORE\n"


def test_calls_lead_into_other_translation_units(tmp_path: Path) -> None:
    psg = graph(
        tmp_path,
        '#include "mesh.h"\nint main() { Mesh m; m.refine(); helper(); }\n',
        mesh_h="struct Mesh { void refine(); };\nvoid helper();\n",
        mesh_cpp='#include "mesh.h"\nvoid Mesh::refine() { for (;;) { } }\nvoid helper() { while (1) { } }\n',
    )
    assert outline(psg) == "function Mesh::refine\n  loop for (;;)\nfunction helper\n  loop while (1)"
    assert {v.place.file for v in psg.walk() if v.kind is VertexKind.LOOP} == {str(tmp_path / "mesh.cpp")}


def test_functions_of_one_file_hide_those_of_others(tmp_path: Path) -> None:
    psg = graph(
        tmp_path,
        "static void f() { for (;;) { } }\nvoid g();\nint main() { f(); g(); }\n",
        other_cpp="static void f() { while (1) { } }\nvoid g() { f(); }\n",
    )
    assert outline(psg) == expect("""
        function f
          loop for (;;)
        function g
          function f
            loop while (1)
        """)


def test_functions_of_headers_are_one_function(tmp_path: Path) -> None:
    psg = graph(
        tmp_path,
        '#include "h.h"\nvoid g();\nint main() { f(); g(); }\n',
        h_h="inline void f() { for (;;) { } }\n",
        other_cpp='#include "h.h"\nvoid g() { f(); }\n',
        uncalled=True,
    )
    assert [psg[child].place.name for child in psg[0].children] == ["main"]
    assert outline(psg) == expect("""
        function f
          loop for (;;)
        function g
          function f
            loop for (;;)
        """)


def test_each_program_calls_its_own_functions(tmp_path: Path) -> None:
    psg = graph(
        tmp_path,
        "void f() { for (;;) { } }\nint main() { f(); }\n",
        other_cpp="void f() { while (1) { } }\nint main() { f(); }\n",
    )
    assert [outline(psg, child) for child in psg[0].children] == [
        "function f\n  loop for (;;)",
        "function f\n  loop while (1)",
    ]


SHAPES = """
struct Shape { virtual void draw() = 0; virtual ~Shape() { } };
struct Box : Shape { void draw() override { for (;;) { } } };
struct Disc : Shape { void draw() override { while (1) { } } };
struct Ring final : Disc { void draw() override { do { } while (1); } };
"""


def test_a_virtual_call_has_all_that_may_run_as_candidates(tmp_path: Path) -> None:
    psg = graph(tmp_path, SHAPES + "void show(Shape &s) { s.draw(); }\nint main() { Box b; show(b); }\n")
    assert outline(psg) == expect("""
        function show
          call Shape::draw
            function Box::draw
              loop for (;;)
            function Disc::draw
              loop while (1)
            function Ring::draw
              loop do
        function Shape::~Shape
        """)


def test_a_virtual_call_goes_down_from_the_class_of_its_object(tmp_path: Path) -> None:
    psg = graph(tmp_path, SHAPES + "void show(Disc &s) { s.draw(); }\nint main() { Ring r; show(r); }\n")
    assert outline(psg).splitlines()[:6:2] == ["function show", "    function Disc::draw", "    function Ring::draw"]


def test_a_virtual_call_whose_target_is_certain_is_inlined(tmp_path: Path) -> None:
    certain = "int main() { Disc d; d.draw(); Shape *s = &d; s->~Shape(); d.Disc::draw(); }\n"
    lines = outline(graph(tmp_path, SHAPES + certain)).splitlines()
    assert lines.count("function Disc::draw") == 2
    alone = "struct A { virtual void f() { for (;;) { } } };\nvoid g(A *a) { a->f(); }\nint main() { A a; g(&a); }\n"
    assert outline(graph(tmp_path, alone)) == "function g\n  function A::f\n    loop for (;;)"


def test_overriders_in_other_translation_units_and_in_templates(tmp_path: Path) -> None:
    psg = graph(
        tmp_path,
        '#include "s.h"\nvoid show(Shape *s) { s->draw(); }\nint main() { show(make()); }\n',
        s_h="struct Shape { virtual void draw() { } };\nShape *make();\n",
        t_cpp='#include "s.h"\ntemplate <class T> struct Of : Shape { void draw() override { for (;;) { } } };\n'
        "Shape *make() { return new Of<int>; }\n",
    )
    assert "call Shape::draw\n    function Shape::draw\n    function Of::draw\n      loop for (;;)" in outline(psg)


def test_a_pointer_may_lead_to_functions_of_its_type_whose_address_is_taken(tmp_path: Path) -> None:
    source = """
    static void fast(int) { for (;;) { } }
    static void slow(int) { while (1) { } }
    static void never(int) { do { } while (1); }
    static void other(double) { }
    void (*table[])(int) = {fast, &slow};
    void (*wrong)(double) = other;
    int main(int argc, char **) { table[argc](1); never(2); }
    """
    assert outline(graph(tmp_path, source)) == expect("""
        call table[argc]
          function fast
            loop for (;;)
          function slow
            loop while (1)
        function never
          loop do
        """)


def test_a_plain_pointer_leads_to_no_lambda_that_captures(tmp_path: Path) -> None:
    source = """
    #include <functional>
    void plainly(void (*f)(int)) { f(1); }
    void held(const std::function<void(int)> &f) { f(1); }
    int main(int argc, char **) {
        plainly([ /* nothing */ ](int) { for (;;) { } });
        held([argc](int) { while (argc) { } });
        held([&](int) { do { } while (argc); });
    }
    """
    plainly, _, held = outline(graph(tmp_path, source)).partition("\nfunction held")
    assert plainly == expect("""
        function plainly
          call f
            function main::<lambda>
              loop for (;;)
        """)
    loops = [line.strip() for line in held.splitlines() if "loop" in line]
    assert loops[:3] == ["loop for (;;)", "loop while (argc)", "loop do"]


def test_pointers_of_c_in_structures(tmp_path: Path) -> None:
    source = """
    struct ops { int (*step)(int); };
    static int one(int x) { for (;;) { } return x; }
    static struct ops ops = { .step = one };
    int main(void) { return ops.step(3); }
    """
    assert outline(graph(tmp_path, source, name="main.c")) == "call ops.step\n  function one\n    loop for (;;)"


def test_pointers_to_members(tmp_path: Path) -> None:
    source = "struct S { void a() { for (;;) { } } void b(int) { } };\n"
    source += "int main() { S s; void (S::*p)() = &S::a; (s.*p)(); }\n"
    assert outline(graph(tmp_path, source)) == "call (s.*p)\n  function S::a\n    loop for (;;)"


def test_what_a_std_function_holds(tmp_path: Path) -> None:
    source = """
    #include <functional>
    static void plain(int) { while (1) { } }
    void run(const std::function<void(int)> &f) { f(3); }
    int main() { run([](int) { for (;;) { } }); run(plain); }
    """
    text = outline(graph(tmp_path, source))
    assert text.splitlines()[:6] == [
        "function run",
        "  call f",
        "    function main::<lambda>",
        "      loop for (;;)",
        "    function plain",
        "      loop while (1)",
    ]


def test_threads_run_what_they_are_given(tmp_path: Path) -> None:
    source = """
    #include <thread>
    static void work(int) { for (;;) { } }
    int main() { std::thread t(work, 3); std::thread u([] { while (1) { } }); t.join(); u.join(); }
    """
    assert outline(graph(tmp_path, source)) == expect("""
        function work
          loop for (;;)
        function main::<lambda>
          loop while (1)
        """)


# communication


def test_calls_of_mpi_are_communication(tmp_path: Path) -> None:
    body = """
    int k; MPI_Request r; MPI_Init(0, 0);
    MPI_Send(&k, 1, MPI_INT, 1, 0, W); MPI_Isend(&k, 1, MPI_INT, 1, 0, W, &r); MPI_Recv(&k, 1, MPI_INT, 0, 0, W, S);
    MPI_Wait(&r, S); MPI_Waitany(1, &r, &k, S); MPI_Bcast(&k, 1, MPI_INT, 0, W); PMPI_Barrier(W);
    MPI_Comm_rank(W, &k); MPI_Scan(&k, &k, 1, MPI_INT, MPI_SUM, W); MPI_Finalize();
    """
    assert outline(graph(tmp_path, f"{MPI}int main() {{ {body} }}\n")) == expect("""
        comm init
        comm blocking_send
        comm send
        comm recv
        comm wait
        comm waitany
        comm broadcast
        comm barrier
        comm scan
        comm finalize
        """)


def test_mpi_in_c(tmp_path: Path) -> None:
    source = (
        MPI + "int main(void) { double a[3]; MPI_Allreduce(MPI_IN_PLACE, a, 3, MPI_DOUBLE, MPI_SUM, W); return 0; }\n"
    )
    assert outline(graph(tmp_path, source, name="main.c")) == "comm allreduce"


SENDING = "(const void *, int, MPI_Datatype, int, int, MPI_Comm)"
ARGUMENTS = "(&k, 1, MPI_INT, 1, 0, W)"


@pytest.mark.parametrize(
    "before, body",
    [
        ("", f"int (*f){SENDING} = MPI_Send; f{ARGUMENTS};"),
        ("", f"int (*f){SENDING} = NULL; f = &MPI_Send; (*f){ARGUMENTS};"),
        (f"static int (*f){SENDING} = PMPI_Send;", f"f{ARGUMENTS};"),
        (f"typedef int (*sending){SENDING};", f"static sending f; if (!f) f = (sending)MPI_Send; f{ARGUMENTS};"),
    ],
    ids=["local", "assigned", "global", "static"],
)
def test_a_variable_that_holds_a_function_of_mpi_is_that_function(tmp_path: Path, before: str, body: str) -> None:
    source = f"{MPI}#include <stddef.h>\n{before}\nint main(void) {{ int k = 0; {body} return 0; }}\n"
    for name in ("main.c", "main.cpp"):
        assert "comm blocking_send" in outline(graph(tmp_path, source, name=name)).splitlines()


def test_a_variable_is_given_a_function_of_mpi_in_another_file(tmp_path: Path) -> None:
    psg = graph(
        tmp_path,
        f"{MPI}extern int (*f){SENDING};\nvoid choose(void);\nint main(void) {{ int k; choose(); f{ARGUMENTS}; }}\n",
        name="main.c",
        other_c=f"{MPI}int (*f){SENDING};\nvoid choose(void) {{ f = MPI_Send; }}\n",
    )
    assert outline(psg) == "function choose\ncomm blocking_send"


@pytest.mark.parametrize(
    "more", ["f = own;", "f = find();", "if (k) f = held;", "set(&f);", "f = MPI_Rsend == f ? f : own;"]
)
def test_a_variable_that_may_hold_something_else_stays_a_call(tmp_path: Path, more: str) -> None:
    before = f"typedef int (*sending){SENDING};\nsending find(void);\nvoid set(sending *);\nextern sending held;\n"
    before += f"int own{SENDING};"
    source = f"{MPI}{before}\nint main(void) {{ int k = 0; sending f = MPI_Send; {more} f{ARGUMENTS}; return 0; }}\n"
    lines = outline(graph(tmp_path, source, name="main.c")).splitlines()
    assert "call f" in lines
    assert "comm blocking_send" not in lines


def test_wrappers_of_mpi_are_ordinary_functions(tmp_path: Path) -> None:
    source = (
        MPI
        + """
    namespace comm { template <class T> MPI_Datatype type(); template <> MPI_Datatype type<int>() { return MPI_INT; }
    template <class T> void send(T *b, int n, int to) { MPI_Send(b, n, type<T>(), to, 0, W); } }
    #define CHECK(call) do { if ((call) != MPI_SUCCESS) MPI_Abort(W, 1); } while (0)
    int main() { int k; for (int i = 0; i < 3; i++) comm::send(&k, 1, i); CHECK(MPI_Barrier(W)); }
    """
    )
    assert outline(graph(tmp_path, source)) == expect("""
        loop for (int i = 0; i < 3; i++)
          function comm::send
            function comm::type
            comm blocking_send
        branch CHECK(MPI_Barrier(W))
          comm barrier
        """)


def test_a_profiling_library_in_the_sources_is_looked_into(tmp_path: Path) -> None:
    source = MPI + 'extern "C" int MPI_Barrier(MPI_Comm c) { for (;;) { } return PMPI_Barrier(c); }\n'
    source += "int main() { MPI_Barrier(W); }\n"
    assert outline(graph(tmp_path, source)) == "function MPI_Barrier\n  loop for (;;)\n  comm barrier"


def test_what_a_buffer_was_computed_by(tmp_path: Path) -> None:
    source = (
        MPI
        + """
    int main() {
        double a[9], b[9]; int n = 9;
        for (int i = 0; i < n; i++) { a[i] = i; }
        b[0] = 1;
        MPI_Send(a, n, MPI_DOUBLE, 1, 0, W);
    }
    """
    )
    psg = graph(tmp_path, source)
    (send,) = [vertex.index for vertex in psg.walk() if vertex.kind is VertexKind.COMM]
    written = sorted(psg[source].place.name for source, target in psg.data if target == send)
    assert written == ["a[i] = i", "double a[9], b[9]"]


def test_without_mpi_its_standard_names_do(tmp_path: Path) -> None:
    write(tmp_path, {"main.cpp": MPI + "int main() { MPI_Alltoall(0, 0, MPI_INT, 0, 0, MPI_INT, W); }\n"})
    from scalana.frontend.cpp.source import flags

    psg = build([tmp_path / "main.cpp"])
    assert [vertex.operation for vertex in psg.walk() if vertex.operation] == [BY_NAME["alltoall"].code]
    assert bool(psg.warnings) == (not flags.mpi_includes())
    assert all("mpi.h was not found" in warning and "main.cpp" in warning for warning in psg.warnings)


# what is missing or broken


def test_missing_headers_and_errors_are_warnings_with_their_place(tmp_path: Path) -> None:
    psg = graph(
        tmp_path,
        '#include "nowhere.h"\nvoid f(Unknown u) { for (;;) { } }\nint main() { for (;;) { } nobody(); }\n',
        other_cpp="void g() { while (1) { } }\n",
        uncalled=True,
    )
    assert [vertex.place.name for vertex in psg.walk() if vertex.kind is VertexKind.LOOP] == ["for (;;)"] * 2 + [
        "while (1)"
    ]
    assert any(f"{tmp_path}/main.cpp:1: 'nowhere.h' file not found" in warning for warning in psg.warnings)
    assert all(str(tmp_path) in warning for warning in psg.warnings)


def test_a_source_that_does_not_exist_is_a_warning(tmp_path: Path) -> None:
    write(tmp_path, {"main.cpp": "int main() { for (;;) { } }\n"})
    psg = build([tmp_path / "main.cpp", tmp_path / "gone.cpp"])
    assert psg.warnings == [f"{tmp_path}/gone.cpp: cannot be read: no such file"]
    assert outline(psg) == "loop for (;;)"


def test_a_file_that_is_no_source_at_all(tmp_path: Path) -> None:
    (tmp_path / "main.cpp").write_bytes(bytes(range(256)) * 40)
    psg = build([tmp_path / "main.cpp"])
    assert psg.warnings and all("main.cpp" in warning for warning in psg.warnings)


def test_macros_that_only_the_compiler_was_given_cost_no_loops_and_no_calls(tmp_path: Path) -> None:
    source = """
    void put(int *b, int n);
    int main(int n, char **v) {
        int *b = 0;
        for (int i = -RADIUS; i <= RADIUS; i++) put(b, i);
        put(b, n * GROUP_SIZE);
    }
    """
    psg = graph(tmp_path, source, name="main.c")
    assert outline(psg) == "loop for (int i = -RADIUS; i <= RADIUS; i++)\n  call put\ncall put"
    assert psg.warnings == [f"{tmp_path}/main.c: undefined, assumed to be 1: RADIUS, GROUP_SIZE"]


def test_names_that_stand_for_no_number_are_left_as_they_are(tmp_path: Path) -> None:
    psg = graph(tmp_path, "int main() { for (;;) { } UNKNOWN.step(); }\n")
    assert len(psg.warnings) == 1 and "undeclared identifier 'UNKNOWN'" in psg.warnings[0]


def test_old_c_is_no_error(tmp_path: Path) -> None:
    psg = graph(tmp_path, "main() { hidden(); for (;;) { } }\n", name="main.c")
    assert (psg.warnings, outline(psg)) == ([], "call hidden\nloop for (;;)")


def test_what_a_small_graph_has_no_room_for_is_shown_once(tmp_path: Path) -> None:
    functions = "\n".join(f"void f{n}() {{ for (;;) {{ }} f{n - 1}(); f{n - 1}(); }}" for n in range(1, 12))
    write(tmp_path, {"main.cpp": f"void f0() {{ while (1) {{ }} }}\n{functions}\nint main() {{ f11(); }}\n"})
    psg = build([tmp_path / "main.cpp"], uncalled=True, budget=100)
    loops = {vertex.place.line for vertex in psg.walk() if vertex.kind is VertexKind.LOOP}
    assert loops == set(range(1, 13))
    assert len(psg) < 200
    assert len(psg.warnings) == 1
