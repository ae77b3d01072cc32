"""The declarations of a translation unit: which function a cursor means, and what is the user's own.

Functions are found in declarations and behind calls: instantiations of templates are nowhere declared, but libclang
shows their bodies, in which everything is resolved. What stands in headers of the system or of MPI is left out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from scalana.frontend.cpp.names import ANONYMOUS, LAMBDA
from scalana.frontend.cpp.source import clang
from scalana.frontend.cpp.source.clang import kind_of, parts_of, start_of
from scalana.frontend.cpp.source.texts import Texts
from scalana.frontend.cpp.unit import CallSite, Unit

if TYPE_CHECKING:
    from clang.cindex import Cursor, Type

FUNCTIONS = frozenset(
    {"FUNCTION_DECL", "CXX_METHOD", "CONSTRUCTOR", "DESTRUCTOR", "CONVERSION_FUNCTION", "FUNCTION_TEMPLATE"}
)
"""Kinds of cursors that declare a function."""
_CLASSES = frozenset(
    {"CLASS_DECL", "STRUCT_DECL", "UNION_DECL", "CLASS_TEMPLATE", "CLASS_TEMPLATE_PARTIAL_SPECIALIZATION"}
)
_AROUND = frozenset({"NAMESPACE", "LINKAGE_SPEC", "UNEXPOSED_DECL", "FRIEND_DECL"}) | _CLASSES
_MEMBERS = frozenset({"CONSTRUCTOR", "DESTRUCTOR", "CXX_METHOD", "CONVERSION_FUNCTION"})
_OWNERS = frozenset(
    "unique_ptr shared_ptr vector array deque list forward_list optional pair tuple set multiset map multimap "
    "unordered_set unordered_map".split()
)
"""Class templates of the library whose objects destroy objects of the types that they are made of."""


class Declarations:
    """What is known of one translation unit while it is read.

    Args:
        result: takes what is found: functions whose address is taken, variables that hold such.
        texts: of its sources.
        only: absolute paths of the files whose functions are read, None for all.
    """

    def __init__(self, result: Unit, texts: Texts, only: Collection[str] | None = None) -> None:
        self.result = result
        self.texts = texts
        self.only = only
        self.mpi: tuple[str, ...] = ()
        """Folders of MPI's headers, which are not the user's."""
        self.virtual: set[str] = set()
        """Ids of virtual destructors."""
        self.bodies: deque[tuple[str, Cursor, Cursor]] = deque()
        """Functions that are still to be read: id, declaration and body."""
        self.variables: deque[Cursor] = deque()
        """Variables outside of functions whose initializers are still to be read."""
        self._ids: dict[Cursor, str] = {}
        self._used: dict[str, int] = {}
        self._names: dict[str, str] = {}
        self._queued: set[str] = set()
        self._foreign: dict[str, bool] = {}
        self._destroyed: dict[str, tuple[str, ...]] = {}

    def declare_all(self, cursors: Iterable[Cursor]) -> None:
        """Look for functions in declarations."""
        for cursor in cursors:
            self.declare(cursor)

    def declare(self, cursor: Cursor) -> None:
        """Look for functions in a declaration."""
        kind = kind_of(cursor)
        if kind in FUNCTIONS:
            if cursor.is_definition() and not self.is_foreign(cursor) and self._is_wanted(cursor):
                self.function(cursor)
        elif kind in _AROUND:
            if not self.is_foreign(cursor):
                self.declare_all(parts_of(cursor))
        elif kind == "VAR_DECL" and not self.is_foreign(cursor):
            self.variables.append(cursor)

    def is_foreign(self, cursor: Cursor) -> bool:
        """Whether a declaration is the system's, the compiler's or MPI's."""
        file = cursor.location.file
        if file is None or cursor.spelling.startswith("__builtin_"):
            return True
        path = self.texts.path_of(file)
        known = self._foreign.get(path)
        if known is None:
            known = clang.in_system_header(cursor) or path.startswith(self.mpi or ("\0",))
            self._foreign[path] = known
        return known

    def _is_wanted(self, definition: Cursor) -> bool:
        """Whether a function's file is one of those whose functions are read."""
        if self.only is None:
            return True
        file = definition.location.file
        return file is not None and self.texts.path_of(file) in self.only

    # functions

    def function(self, cursor: Cursor) -> str | None:
        """Id of a function; it is read if it is defined here. None for what the compiler wrote itself."""
        definition = cursor.get_definition()
        found = definition if definition is not None else cursor
        identity = self._ids.get(found)
        if identity is None:
            if kind_of(found) in _MEMBERS and self._is_implicit(found):
                return None
            identity = self._identify(found)
            if definition is not None and not self.is_foreign(definition) and self._is_wanted(definition):
                self._enqueue(identity, definition, definition)
        return identity

    def _identify(self, cursor: Cursor) -> str:
        usr = cursor.get_usr() or f"{cursor.spelling}@{cursor.location.line}:{cursor.location.column}"
        times = self._used[usr] = self._used.get(usr, 0) + 1
        identity = usr if times == 1 else f"{usr}~{times}"
        self._ids[cursor] = identity
        self._names[identity] = self.qualified(cursor)
        return identity

    def _is_implicit(self, cursor: Cursor) -> bool:
        owner = cursor.semantic_parent
        if owner is not None and self._is_closure(owner):
            return bool(cursor.spelling != "operator()")
        if owner is None or cursor.location != owner.location:
            return bool(cursor.is_default_method()) and not any(
                kind_of(child) == "COMPOUND_STMT" for child in parts_of(cursor)
            )
        return True

    def _is_closure(self, cursor: Cursor) -> bool:
        return kind_of(cursor) == "CLASS_DECL" and "(lambda at " in cursor.type.spelling

    def _enqueue(self, identity: str, cursor: Cursor, body: Cursor) -> None:
        if identity not in self._queued:
            self._queued.add(identity)
            self.bodies.append((identity, cursor, body))

    def is_pattern(self, cursor: Cursor) -> bool:
        """Whether a function is, or stands in, a template that is not instantiated."""
        around: Cursor | None = cursor
        while around is not None and kind_of(around) != "TRANSLATION_UNIT":
            if kind_of(around) in ("FUNCTION_TEMPLATE", "CLASS_TEMPLATE", "CLASS_TEMPLATE_PARTIAL_SPECIALIZATION"):
                return True
            around = around.semantic_parent
        return False

    def closure(self, cursor: Cursor) -> str:
        """Id of the function that a lambda expression makes."""
        made = cursor.type.get_canonical().get_declaration()
        for child in parts_of(made):
            if child.spelling == "operator()" and kind_of(child) in ("CXX_METHOD", "FUNCTION_TEMPLATE"):
                known = self._ids.get(child)
                if known is None:
                    known = self._identify(child)
                    self._enqueue(known, child, cursor)
                return known
        identity = self._ids.get(cursor)
        if identity is None:
            start = start_of(cursor)
            identity = f"lambda@{self.texts.place(cursor).file}@{start.line}:{start.column}"
            self._ids[cursor] = identity
            self._names[identity] = LAMBDA
            self._enqueue(identity, cursor, cursor)
        return identity

    def name_of(self, identity: str) -> str:
        """Qualified name of a function by its id."""
        return self._names.get(identity, "")

    def direct(self, identity: str, name: str) -> CallSite:
        """A plain call of a function."""
        return CallSite("direct", identity, name)

    def qualified(self, cursor: Cursor) -> str:
        """Name of a function with its namespaces and classes, without template arguments."""
        parts: list[str] = []
        around: Cursor | None = cursor
        while around is not None and kind_of(around) != "TRANSLATION_UNIT":
            kind = kind_of(around)
            if kind == "CLASS_DECL" and self._is_closure(around):
                parts[-1:] = [LAMBDA]  # and not its operator()
            elif kind == "NAMESPACE":
                if not around.spelling or around.spelling.startswith("("):
                    parts.append(ANONYMOUS)
                else:
                    parts.append(around.spelling)
            elif kind in FUNCTIONS:
                parts.append(_without_arguments(around.spelling))
            elif kind in _CLASSES:
                parts.append(_without_arguments(around.spelling) if around.spelling else "(anonymous)")
            around = around.semantic_parent
        return "::".join(reversed([part for part in parts if part]))

    # pointers

    def take(self, identity: str, expression: Cursor) -> None:
        """A lambda: whoever has it may call it."""
        made = expression.type.get_canonical().get_declaration()
        for child in parts_of(made):
            if child.spelling == "operator()":
                self.take_typed(identity, child.type)
        if self.texts.captures(expression) and identity not in self.result.capturing:
            self.result.capturing.append(identity)

    def take_typed(self, identity: str, kind: Type) -> None:
        """The address of a function is taken."""
        self.result.taken[identity] = self.plain_type(kind)

    def variable(self, cursor: Cursor) -> str:
        """Id of a variable that points to functions; "" for any other, and for what is no variable."""
        if kind_of(cursor) != "VAR_DECL" or not self.function_type(cursor.type):
            return ""
        usr: str = cursor.get_usr()
        return usr if cursor.linkage.name in ("EXTERNAL", "UNIQUE_EXTERNAL") else f"{self.result.file}:{usr}"

    def give(self, variable: str, name: str) -> None:
        """A variable that points to functions is given one of MPI's, or ("") one that is not known."""
        names = self.result.held.setdefault(variable, [])
        if name not in names:
            names.append(name)

    def plain_type(self, kind: Type) -> str:
        """The type of a function, by which pointers and functions are compared."""
        text: str = kind.get_canonical().spelling
        for suffix in (" noexcept", " const", " &", " &&", " volatile"):
            text = text.removesuffix(suffix)
        return text

    def function_type(self, kind: Type) -> str:
        """The type of function behind a pointer, a reference or a pointer to a member; "" for anything else."""
        kind = kind.get_canonical()
        for _ in range(3):
            name = kind.kind.name
            if name in ("FUNCTIONPROTO", "FUNCTIONNOPROTO"):
                return self.plain_type(kind)
            if name not in ("POINTER", "LVALUEREFERENCE", "RVALUEREFERENCE", "MEMBERPOINTER"):
                return ""
            kind = kind.get_pointee().get_canonical()
        return ""

    def call_operators(self, kind: Type) -> list[str]:
        """Ids of the functions that calling an object of a class runs."""
        kind = kind.get_canonical()
        if kind.kind.name in ("LVALUEREFERENCE", "RVALUEREFERENCE"):
            kind = kind.get_pointee().get_canonical()
        made = kind.get_declaration()
        if kind_of(made) not in _CLASSES or self.is_foreign(made):
            return []
        found = [self.function(child) for child in parts_of(made) if child.spelling == "operator()"]
        return [identity for identity in found if identity is not None]

    # what compilers call without being told

    def destroyed(self, kind: Type) -> tuple[str, ...]:
        """Ids of the destructors in the user's code that run when a variable of a type goes away."""
        kind = kind.get_canonical()
        while kind.kind.name == "CONSTANTARRAY":
            kind = kind.element_type.get_canonical()
        if kind.kind.name != "RECORD":
            return ()
        return self._destructors(kind.get_declaration())

    def _destructors(self, made: Cursor) -> tuple[str, ...]:
        if kind_of(made) not in _CLASSES:
            return ()
        if self.is_foreign(made):
            kind = made.type
            count = kind.get_num_template_arguments() if made.spelling in _OWNERS else 0
            return tuple(
                identity for n in range(count) for identity in self.destroyed(kind.get_template_argument_type(n))
            )
        usr = made.get_usr()
        known = self._destroyed.get(usr)
        if known is not None:
            return known
        self._destroyed[usr] = ()
        written = self._written(made)
        own = next((child for child in parts_of(written) if kind_of(child) == "DESTRUCTOR"), None)
        found: tuple[str, ...]
        identity = self.function(own) if own is not None else None
        if own is not None and identity is not None:
            if own.is_virtual_method():
                self.virtual.add(identity)
            found = (identity,)
        else:
            found = self.members_destroyed(made)
        self._destroyed[usr] = found
        return found

    def _written(self, made: Cursor) -> Cursor:
        """The class as it stands in the source: of an instantiation, the template."""
        definition = made.get_definition() or made
        pattern = clang.pattern_of(definition)
        if pattern is None:
            return definition
        return pattern.get_definition() or pattern

    def members_destroyed(self, made: Cursor | None) -> tuple[str, ...]:
        """Ids of the destructors of a class's members and bases, the last member first."""
        if made is None:
            return ()
        found: list[str] = []
        for child in parts_of(self._written(made)):
            if kind_of(child) in ("FIELD_DECL", "CXX_BASE_SPECIFIER"):
                found[:0] = self.destroyed(child.type)
        return tuple(found)

    def members_constructed(self, constructor: Cursor) -> tuple[str, ...]:
        """Ids of the constructors that a constructor written by the compiler calls."""
        made = constructor.semantic_parent
        arguments = len(list(constructor.get_arguments()))
        if made is None or arguments or self.is_foreign(made):
            return ()
        found: list[str] = []
        for child in parts_of(self._written(made)):
            if kind_of(child) in ("FIELD_DECL", "CXX_BASE_SPECIFIER"):
                kind = child.type.get_canonical()
                if kind.kind.name != "RECORD":
                    continue
                declaration = kind.get_declaration()
                if kind_of(declaration) not in _CLASSES or self.is_foreign(declaration):
                    continue
                for member in parts_of(self._written(declaration)):
                    if kind_of(member) == "CONSTRUCTOR" and member.is_default_constructor():
                        identity = self.function(member)
                        found += [identity] if identity is not None else list(self.members_constructed(member))
        return tuple(found)


def _without_arguments(name: str) -> str:
    if name.startswith("operator"):
        return name
    return name.partition("<")[0]
