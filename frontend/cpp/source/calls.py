"""Expressions of C and C++: the calls in them, in order of evaluation, and the variables that they read and write."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from scalana.frontend.cpp.source.clang import children_of, is_dynamic_call, kind_of, referenced, start_of
from scalana.frontend.cpp.source.declarations import FUNCTIONS, Declarations
from scalana.frontend.cpp.source.through import Through
from scalana.frontend.cpp.unit import CallSite
from scalana.graphs.structure.psg import Place, VertexKind
from scalana.graphs.structure.source_tree import Node
from scalana.runtime.operations import mpi_call

if TYPE_CHECKING:
    from clang.cindex import Cursor, Type


_THROUGH = frozenset({"UNEXPOSED_EXPR", "PAREN_EXPR", "CXX_FUNCTIONAL_CAST_EXPR", "CSTYLE_CAST_EXPR"})
_CASTS = frozenset(
    {"CXX_STATIC_CAST_EXPR", "CXX_REINTERPRET_CAST_EXPR", "CXX_CONST_CAST_EXPR", "CXX_DYNAMIC_CAST_EXPR"}
)
_KEEPS = frozenset(
    "atexit at_quick_exit signal sigaction set_terminate set_unexpected set_new_handler ref cref bind bind_front "
    "make_pair make_tuple tie forward_as_tuple move forward swap exchange get addressof mem_fn not_fn make_unique "
    "make_shared make_any make_optional".split()
)
"""Functions of the standard library that keep or pass on what they are given, and do not call it."""
_STARTS = frozenset({"thread", "jthread"})
"""Classes whose constructor calls what it is given."""
_HOLDERS = frozenset({"function", "move_only_function", "copyable_function", "function_ref", "packaged_task"})
"""Class templates that hold a function of the type of their first argument."""
_UNEVALUATED = frozenset({"CXX_UNARY_EXPR", "CXX_NOEXCEPT_EXPR", "CXX_TYPEID_EXPR", "REQUIRES_EXPR"})
"""``sizeof`` and its kin: what stands in them never runs."""
_NULL = frozenset({"CXX_NULL_PTR_LITERAL_EXPR", "GNU_NULL_EXPR", "INTEGER_LITERAL"})
_PLAIN = frozenset(
    {"DECL_REF_EXPR", "MEMBER_REF_EXPR", "CXX_THIS_EXPR", "CXX_NULL_PTR_LITERAL_EXPR", "GNU_NULL_EXPR", "TYPE_REF"}
)


class Calls:
    """Finds call sites."""

    def __init__(self, declarations: Declarations, statement: Callable[[Cursor], list[Node]]) -> None:
        self.declarations = declarations
        self.statement = statement
        self.texts = declarations.texts
        self.through = Through(declarations)

    def of(self, cursor: Cursor) -> list[Node]:
        """The calls in an expression, those that are made first in front."""
        kind = kind_of(cursor)
        if kind == "CALL_EXPR":
            return self.call(cursor)
        if kind == "LAMBDA_EXPR":
            return self.lambda_expression(cursor)
        if kind in _UNEVALUATED:
            return []
        if kind == "CONDITIONAL_OPERATOR":
            return self.conditional(cursor)
        if kind == "BINARY_OPERATOR":
            return self.binary(cursor)
        if kind == "CXX_DELETE_EXPR":
            return self.delete(cursor)
        if kind == "UNARY_OPERATOR":
            self.note_address(cursor)
        if kind in ("COMPOUND_STMT", "StmtExpr"):  # a statement expression of GNU C
            return self.children(cursor) if kind == "StmtExpr" else self.statement(cursor)
        if kind in ("DECL_REF_EXPR", "MEMBER_REF_EXPR"):
            self.note_taken(cursor)
            if kind == "DECL_REF_EXPR":
                return []
        return self.children(cursor)

    def children(self, cursor: Cursor) -> list[Node]:
        """The calls in all parts of something."""
        return [node for child in children_of(cursor) for node in self.of(child)]

    def initializer(self, variable: Cursor) -> list[Node]:
        """The calls in what a variable is given when it is made."""
        children = children_of(variable)
        if children and children[-1].kind.is_expression():
            self.note_given(variable, children[-1])
        return self.children(variable)

    # kinds of expressions

    def conditional(self, cursor: Cursor) -> list[Node]:
        """``a ? b : c``"""
        children = list(children_of(cursor))
        nodes = self.of(children[0]) if children else []
        return nodes + [arm for part in children[1:] for arm in self.arm(part)]

    def binary(self, cursor: Cursor) -> list[Node]:
        """``a && b`` and ``a || b`` may leave out ``b``."""
        children = list(children_of(cursor))
        if len(children) != 2:
            return [node for child in children for node in self.of(child)]
        left, right = children
        if self.texts.gap(left, right) == b"=":
            target = self.core(left)
            if target is not None and kind_of(target) == "DECL_REF_EXPR":
                self.note_given(referenced(target), right)
        first, second = self.of(left), self.of(right)
        if second and self.texts.gap(left, right)[:2] in (b"&&", b"||"):
            return [*first, Node(VertexKind.BRANCH, self.texts.named(right), second, optional=True)]
        return first + second

    def arm(self, cursor: Cursor) -> list[Node]:
        """Part of an expression that may be left out."""
        nodes = self.of(cursor)
        return [Node(VertexKind.BRANCH, self.texts.named(cursor), nodes, optional=True)] if nodes else []

    def delete(self, cursor: Cursor) -> list[Node]:
        """``delete p`` calls the destructor."""
        nodes = self.children(cursor)
        children = list(children_of(cursor))
        if children:
            pointee = children[-1].type.get_canonical().get_pointee()
            for function in self.declarations.destroyed(pointee):
                name = self.declarations.name_of(function)
                kind = "virtual" if function in self.declarations.virtual else "direct"
                nodes.append(self.node(cursor, CallSite(kind, function, name)))
        return nodes

    def held_by(self, cursor: Cursor) -> list[Node]:
        """Calls of what a range is made of, such as the condition of a filter: they run when it is iterated over."""
        name = self.texts.named(cursor).name
        found = self.through.callables(cursor.type)
        return [self.node(cursor, CallSite("direct", name, name, True, found))] if found else []

    def lambda_expression(self, cursor: Cursor) -> list[Node]:
        """A lambda is a function of its own; what it captures is computed here."""
        function = self.declarations.closure(cursor)
        self.declarations.take(function, cursor)
        return [
            node
            for child in children_of(cursor)
            if child.kind.is_expression() and kind_of(child) != "LAMBDA_EXPR"
            for node in self.of(child)
        ]

    # calls

    def call(self, cursor: Cursor) -> list[Node]:
        """A call, behind those in its arguments."""
        children = list(children_of(cursor))
        callee = referenced(cursor)
        kind = kind_of(callee) if callee is not None else ""
        known = callee is not None and kind in FUNCTIONS
        nodes: list[Node] = []
        skipped = False
        for child in children:
            if known and not skipped and self._is_reference_to(child, callee):
                skipped = True
                if kind_of(child) == "MEMBER_REF_EXPR":
                    nodes += self.children(child)
                continue
            nodes += self.of(child)
        site = self.site(cursor, children, callee if known else None)
        if site is not None:
            node = self.node(cursor, site)
            self._data(node, cursor)
            nodes.append(node)
        elif known and kind == "CONSTRUCTOR" and callee is not None:
            for function in self.declarations.members_constructed(callee):
                site = self.declarations.direct(function, self.declarations.name_of(function))
                nodes.append(self.node(cursor, site))
        return nodes

    def node(self, cursor: Cursor, site: CallSite) -> Node:
        """A call site."""
        bare = self.texts.place(cursor)
        place = Place(bare.file, bare.line, bare.end_line, bare.column, site.name, bare.end_column)
        row = mpi_call(site.name)
        return Node(VertexKind.CALL, place, operation=row.operation if row is not None else 0, call=site)

    def site(self, cursor: Cursor, children: list[Cursor], callee: Cursor | None) -> CallSite | None:
        """What a call leads to; None if to nothing that could be of interest."""
        if callee is None:
            return self.indirect(cursor, children)
        system = self.declarations.is_foreign(callee)
        name = callee.spelling
        if system:
            if mpi_call(name) is not None:
                return CallSite("direct", callee.get_usr(), name, True)
            held = self.held(callee)
            if held:
                return CallSite("pointer", held, self.text(cursor, children), True)
            given = self.through.functions(callee) or self.given(cursor, callee)
            return CallSite("direct", callee.get_usr(), name, True, given) if given else None
        function = self.declarations.function(callee)
        if function is None:  # written by the compiler
            return None
        name = self.declarations.qualified(callee)
        if is_dynamic_call(cursor) and callee.is_virtual_method() and not self._exact(children):
            return CallSite("virtual", function, name)
        return CallSite("direct", function, name, False, self.given(cursor, callee))

    def indirect(self, cursor: Cursor, children: list[Cursor]) -> CallSite | None:
        """A call through a pointer, or of a name that depends on template parameters."""
        text = self.text(cursor, children)
        signature = self.declarations.function_type(children[0].type) if children else ""
        core = self.core(children[0]) if children and not signature else None
        if core is not None and kind_of(core) == "BINARY_OPERATOR":  # (object.*pointer)()
            signature = self.declarations.function_type(list(children_of(core))[-1].type)
        if signature:
            return CallSite("pointer", signature, text, variable=self.called_variable(children[0]))
        name = text.rpartition("::")[2].partition("<")[0].strip()
        return CallSite("name", name, text) if name else None

    def called_variable(self, cursor: Cursor) -> str:
        """Id of the variable whose pointer is called, as ``f(...)`` or ``(*f)(...)``; "" where it is none."""
        core = self.core(cursor)
        if core is not None and kind_of(core) == "UNARY_OPERATOR":
            core = self.core(next(iter(children_of(core)), None))
        variable = referenced(core) if core is not None and kind_of(core) == "DECL_REF_EXPR" else None
        return self.declarations.variable(variable) if variable is not None else ""

    def text(self, cursor: Cursor, children: list[Cursor]) -> str:
        """How the source writes what is called."""
        if not children:
            return cursor.spelling
        place = self.texts.named(children[0])
        end = start_of(cursor)
        if place.line != place.end_line and end.line == place.line:
            return place.name.partition("(")[0]
        return place.name

    def held(self, callee: Cursor) -> str:
        """Of a call of a ``std::function``: the type of function that it holds; "" for anything else."""
        if callee.spelling != "operator()":
            return ""
        holder = callee.semantic_parent
        if holder is None or holder.spelling not in _HOLDERS:
            return ""
        kind = holder.type
        if kind.get_num_template_arguments() < 1:
            return ""
        return self.declarations.plain_type(kind.get_template_argument_type(0))

    def given(self, cursor: Cursor, callee: Cursor) -> tuple[str, ...]:
        """Functions that a function of somebody else's is given, and will call."""
        kind, name = kind_of(callee), callee.spelling.partition("<")[0]
        if kind == "CONSTRUCTOR":
            if name not in _STARTS:
                return ()
        elif kind != "FUNCTION_DECL" or name in _KEEPS or name.startswith(("MPI_", "PMPI_", "operator")):
            return ()
        found: dict[str, None] = {}
        for argument in cursor.get_arguments():
            if argument is None:
                continue
            core = self.core(argument)
            if core is None:
                continue
            if kind_of(core) == "LAMBDA_EXPR":
                found[self.declarations.closure(core)] = None
                continue
            target = referenced(core) if kind_of(core) in ("DECL_REF_EXPR", "UNARY_OPERATOR") else None
            if kind_of(core) == "UNARY_OPERATOR":
                parts = list(children_of(core))
                inner = self.core(parts[0]) if parts else None
                target = referenced(inner) if inner is not None and kind_of(inner) == "DECL_REF_EXPR" else None
            if target is not None and kind_of(target) in FUNCTIONS:
                function = None if self.declarations.is_foreign(target) else self.declarations.function(target)
                if function is not None:
                    found[function] = None
                continue
            for function in self.declarations.call_operators(argument.type):
                found[function] = None
        return tuple(found)

    def note_taken(self, cursor: Cursor) -> None:
        """A function that is named without being called: its address is taken."""
        target = referenced(cursor)
        if target is not None and kind_of(target) in FUNCTIONS and not self.declarations.is_foreign(target):
            function = self.declarations.function(target)
            if function is not None:
                self.declarations.take_typed(function, target.type)

    def note_given(self, variable: Cursor | None, value: Cursor) -> None:
        """What a variable is given: MPI functions by their names. Nothing, where it does not point to functions."""
        identity = self.declarations.variable(variable) if variable is not None else ""
        core = self.core(value) if identity else None
        if core is None or kind_of(core) in _NULL:
            return
        if kind_of(core) == "UNARY_OPERATOR":
            core = self.core(next(iter(children_of(core)), None))
        target = referenced(core) if core is not None and kind_of(core) == "DECL_REF_EXPR" else None
        of_mpi = target is not None and mpi_call(target.spelling) is not None and self.declarations.is_foreign(target)
        self.declarations.give(identity, target.spelling if target is not None and of_mpi else "")

    def note_address(self, cursor: Cursor) -> None:
        """``&variable``: whoever has it may change what the variable points to."""
        inner = self.core(next(iter(children_of(cursor)), None))
        variable = referenced(inner) if inner is not None and kind_of(inner) == "DECL_REF_EXPR" else None
        if variable is not None and self.texts.first(cursor)[:1] == b"&":
            identity = self.declarations.variable(variable)
            if identity:
                self.declarations.give(identity, "")

    def core(self, cursor: Cursor | None) -> Cursor | None:
        """An expression without the casts and temporaries around it."""
        while cursor is not None and (kind_of(cursor) in _THROUGH or kind_of(cursor) in _CASTS):
            children = [child for child in children_of(cursor) if not child.kind.is_reference()]
            if not children:
                return cursor
            cursor = children[-1]
        if cursor is not None and kind_of(cursor) == "CALL_EXPR":
            callee = referenced(cursor)  # the copy of an argument
            if callee is not None and kind_of(callee) == "CONSTRUCTOR":
                children = list(children_of(cursor))
                if len(children) == 1 and callee.is_move_constructor() | callee.is_copy_constructor():
                    return self.core(children[0])
        return cursor

    def _is_reference_to(self, cursor: Cursor, callee: Cursor | None) -> bool:
        inner: Cursor | None = cursor
        while inner is not None and kind_of(inner) in _THROUGH:
            inner = next(iter(children_of(inner)), None)
        if inner is None or kind_of(inner) not in ("DECL_REF_EXPR", "MEMBER_REF_EXPR"):
            return False
        target = referenced(inner)
        return target is not None and target == callee

    def _exact(self, children: list[Cursor]) -> bool:
        """Whether the object of a method call is a variable whose class is known for sure."""
        if not children or kind_of(children[0]) != "MEMBER_REF_EXPR":
            return False
        receiver = next(iter(children_of(children[0])), None)
        if receiver is None or kind_of(receiver) != "DECL_REF_EXPR":
            return False
        variable = referenced(receiver)
        return variable is not None and variable.type.get_canonical().kind.name == "RECORD"

    # data

    def names(self, cursors: Iterable[Cursor]) -> tuple[str, ...]:
        """Variables that expressions read, each once, in order."""
        found: dict[str, None] = {}
        stack = list(reversed(list(cursors)))
        while stack:
            cursor = stack.pop()
            kind = kind_of(cursor)
            if kind in ("DECL_REF_EXPR", "MEMBER_REF_EXPR"):
                target = referenced(cursor)
                if target is not None and kind_of(target) in ("VAR_DECL", "PARM_DECL", "FIELD_DECL"):
                    if not target.spelling.startswith("__"):  # the compiler's own
                        found[target.spelling] = None
            if kind != "LAMBDA_EXPR":
                stack.extend(reversed(list(children_of(cursor))))
        return tuple(found)

    def written(self, cursor: Cursor) -> tuple[str, ...]:
        """Variables that a statement assigns to; ``x[i]``, ``*x`` and ``x.a`` change ``x``."""
        found: dict[str, None] = {}
        stack = [cursor]
        while stack:
            part = stack.pop()
            kind = kind_of(part)
            children = list(children_of(part))
            if kind == "BINARY_OPERATOR" and len(children) == 2:
                operator = self.texts.gap(*children)
                if operator.startswith(b"=") and not operator.startswith(b"=="):
                    found.update(dict.fromkeys(self.base(children[0])))
            elif kind == "COMPOUND_ASSIGNMENT_OPERATOR" and children:
                found.update(dict.fromkeys(self.base(children[0])))
            elif kind == "UNARY_OPERATOR" and children:
                if {self.texts.first(part), self.texts.last(part)} & {b"++", b"--"}:
                    found.update(dict.fromkeys(self.base(children[0])))
            if kind != "LAMBDA_EXPR":
                stack.extend(children)
        return tuple(found)

    def base(self, cursor: Cursor) -> tuple[str, ...]:
        """The variable that an expression is part of."""
        while True:
            kind = kind_of(cursor)
            if kind == "DECL_REF_EXPR":
                return (cursor.spelling,)
            children = list(children_of(cursor))
            if kind == "MEMBER_REF_EXPR" and (not children or kind_of(children[0]) == "CXX_THIS_EXPR"):
                return (cursor.spelling,)
            if not children:
                return ()
            cursor = children[0]

    def _data(self, node: Node, cursor: Cursor) -> None:
        """What a call may write: what it is given by address. What communication reads: all its arguments."""
        arguments = [argument for argument in cursor.get_arguments() if argument is not None]
        defines: dict[str, None] = {}
        for argument in arguments:
            if self._address(argument):
                core = self.core(argument)
                if core is not None:
                    defines.update(dict.fromkeys(self.base(core)))
        node.defines = tuple(defines)
        if node.operation or (isinstance(node.call, CallSite) and node.call.variable):
            node.uses = self.names(arguments)

    def _address(self, cursor: Cursor) -> bool:
        core = self.core(cursor)
        if core is None:
            return False
        kind: Type = core.type.get_canonical()
        if kind.kind.name == "POINTER":
            return not kind.get_pointee().is_const_qualified()
        return kind.kind.name in ("CONSTANTARRAY", "INCOMPLETEARRAY", "VARIABLEARRAY")

    def computes(self, cursor: Cursor | None) -> bool:
        """Whether an argument takes time of its own to compute."""
        core = self.core(cursor)
        if core is None or kind_of(core) in _PLAIN or kind_of(core).endswith("_LITERAL"):
            return False
        if kind_of(core) == "CALL_EXPR":
            return True
        return any(self.computes(child) for child in children_of(core))
