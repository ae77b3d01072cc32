"""Through the templates of the standard library, back into the user's code.

``std::make_unique<Solver>(3)`` runs ``Solver``'s constructor, ``std::sort`` a comparison. libclang shows the bodies of
instantiations, those of the library included: they are searched for calls of the user's functions. Only instantiations
over the user's own types are looked into, for others have no way back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scalana.frontend.cpp.source import clang
from scalana.frontend.cpp.source.clang import children_of, kind_of, parts_of
from scalana.frontend.cpp.source.declarations import Declarations

if TYPE_CHECKING:
    from clang.cindex import Cursor, Type


DEPTH = 30
"""Deepest chain of the library's functions that is followed."""
MOST = 400
"""Most functions of the library that are looked into for one call of the user's."""
_CALLABLE = frozenset({"FUNCTION_DECL", "CXX_METHOD", "CONSTRUCTOR", "CONVERSION_FUNCTION"})


class Through:
    """Finds the user's functions behind functions of the library."""

    def __init__(self, declarations: Declarations) -> None:
        self.declarations = declarations
        self._found: dict[Cursor, tuple[str, ...]] = {}
        self._own: dict[str, bool] = {}

    def functions(self, callee: Cursor) -> tuple[str, ...]:
        """Ids of the user's functions that a function of the library calls, at any depth, in order."""
        known = self._found.get(callee)
        if known is not None:
            return known
        found: dict[str, None] = {}
        if self.concerns(callee):
            stack, seen = [(callee, 0)], {callee}
            while stack:
                function, depth = stack.pop()
                inner = self._look_into(function, found)
                if depth < DEPTH and len(seen) < MOST:
                    new = [other for other in inner if other not in seen]
                    seen.update(new)
                    stack.extend((other, depth + 1) for other in reversed(new))
        self._found[callee] = tuple(found)
        return self._found[callee]

    def _look_into(self, function: Cursor, found: dict[str, None]) -> list[Cursor]:
        """Note the user's functions that are called in a body, and return those of the library that concern them."""
        definition = function.get_definition()
        inner: list[Cursor] = []
        stack = parts_of(definition) if definition is not None else []
        stack.reverse()
        while stack:
            cursor = stack.pop()
            callee = cursor.referenced if kind_of(cursor) == "CALL_EXPR" else None
            if callee is not None and kind_of(callee) in _CALLABLE:
                if self.declarations.is_foreign(callee):
                    inner += [callee] if self.concerns(callee) else []
                elif (identity := self.declarations.function(callee)) is not None:
                    found[identity] = None
            stack.extend(reversed(list(children_of(cursor))))
        return inner

    def callables(self, kind: Type, depth: int = 0) -> tuple[str, ...]:
        """Ids of the call operators of the user's classes that a type of the library is made of."""
        kind = kind.get_canonical()
        while kind.kind.name in ("POINTER", "LVALUEREFERENCE", "RVALUEREFERENCE"):
            kind = kind.get_pointee().get_canonical()
        if kind.kind.name != "RECORD" or not self._is_own(kind):
            return ()
        if not self.declarations.is_foreign(kind.get_declaration()):
            return tuple(self.declarations.call_operators(kind)) if depth else ()
        count = max(kind.get_num_template_arguments(), 0) if depth < 6 else 0
        found = [self.callables(kind.get_template_argument_type(number), depth + 1) for number in range(count)]
        return tuple(dict.fromkeys(identity for part in found for identity in part))

    def concerns(self, callee: Cursor) -> bool:
        """Whether a function, or the class that it belongs to, is an instantiation over a type of the user's."""
        if clang.pattern_of(callee) is None:
            return False
        for number in range(max(callee.get_num_template_arguments(), 0)):
            if self._is_own(callee.get_template_argument_type(number)):
                return True
        owner = callee.semantic_parent
        if owner is not None and kind_of(owner) in ("CLASS_DECL", "STRUCT_DECL") and self._is_own(owner.type):
            return True
        # Packs of arguments are not listed among the template's.
        return any(self._is_own(argument.type) for argument in callee.get_arguments() if argument is not None)

    def _is_own(self, kind: Type, depth: int = 0) -> bool:
        """Whether a type is the user's, or made of one."""
        kind = kind.get_canonical()
        while kind.kind.name in ("POINTER", "LVALUEREFERENCE", "RVALUEREFERENCE"):
            kind = kind.get_pointee().get_canonical()
        if kind.kind.name != "RECORD":
            return False
        name = kind.spelling
        known = self._own.get(name)
        if known is None:
            self._own[name] = False
            known = not self.declarations.is_foreign(kind.get_declaration())
            if not known and depth < 4:
                count = max(kind.get_num_template_arguments(), 0)
                known = any(self._is_own(kind.get_template_argument_type(n), depth + 1) for n in range(count))
            self._own[name] = known
        return known
