"""A translation unit, parsed by libclang, to a :class:`~scalana.frontend.cpp.unit.Unit`."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import TYPE_CHECKING

from scalana.frontend.cpp.source import clang
from scalana.frontend.cpp.source.clang import kind_of, parts_of
from scalana.frontend.cpp.source.declarations import Declarations
from scalana.frontend.cpp.source.statements import Builder
from scalana.frontend.cpp.source.texts import Texts
from scalana.frontend.cpp.unit import FunctionRecord, Unit
from scalana.graphs.structure.psg import Place

if TYPE_CHECKING:
    from clang.cindex import Cursor, TranslationUnit

MOST_ERRORS = 3
"""Errors of one translation unit that are shown in full."""


class Reader:
    """Reads one translation unit.

    Args:
        unit: the parsed translation unit.
        file: its absolute path.
        directory: in which the compiler was run.
        openmp: whether directives of OpenMP count.
        only: absolute paths of the files whose functions are read, None for all.
    """

    def __init__(
        self,
        unit: TranslationUnit,
        file: str,
        directory: str,
        openmp: bool,
        only: Collection[str] | None = None,
    ) -> None:
        self.unit = unit
        self.result = Unit(file, only=None if only is None else tuple(sorted(only)))
        self.texts = Texts(directory, openmp, lambda path: list(clang.skipped_lines(unit, path)))
        self.declarations = Declarations(self.result, self.texts, only)
        self.builder = Builder(self.declarations)

    def read(self) -> Unit:
        """Everything that the translation unit holds."""
        self._read_headers()
        self._read_errors()
        known = self.declarations
        known.declare_all(parts_of(self.unit.cursor))
        while known.variables or known.bodies:  # each may lead to more of both
            if known.variables:
                self.result.outside += self.builder.expressions.initializer(known.variables.popleft())
            else:
                self._define(*known.bodies.popleft())
        return self.result

    def _read_headers(self) -> None:
        seen = {self.texts.path(inclusion.include.name): inclusion.include for inclusion in self.unit.get_includes()}
        mpi = self.declarations.mpi = tuple(
            os.path.dirname(path) + os.sep for path in seen if os.path.basename(path) == "mpi.h"
        )
        locations = clang.bindings().SourceLocation
        for path, file in seen.items():
            system = self._is_system_location(locations.from_position(self.unit, file, 1, 1))
            self.result.headers.append((path, system or path.startswith(mpi)))

    def _read_errors(self) -> None:
        errors: list[str] = []
        for diagnostic in self.unit.diagnostics:
            if diagnostic.severity < 3:
                continue
            where = diagnostic.location
            if diagnostic.severity == 3 and where.file is not None and self._is_system_location(where):
                continue  # built for another compiler; what is needed of it is there
            file = self.texts.path(where.file.name) if where.file is not None else self.result.file
            text = f"{file}:{where.line}: {diagnostic.spelling}"
            if text not in errors:
                errors.append(text)
        if errors:
            self.result.complete = False
            self.result.warnings += errors[:MOST_ERRORS]
            if len(errors) > MOST_ERRORS:
                more = len(errors) - MOST_ERRORS
                self.result.warnings.append(f"{self.result.file}: {more} more errors; the rest of the file was read")

    def _is_system_location(self, location: object) -> bool:
        return bool(clang.bindings().conf.lib.clang_Location_isInSystemHeader(location))

    def _define(self, identity: str, cursor: Cursor, body: Cursor) -> None:
        name = self.declarations.name_of(identity)
        location, span = cursor.location, self.texts.place(body)
        lambda_ = kind_of(body) == "LAMBDA_EXPR"
        nodes = self.builder.lambda_body(body) if lambda_ else self.builder.function(cursor)
        if location.file is None:
            return
        file, line = self.texts.path_of(location.file), location.line
        place = Place(file, line, max(span.end_line, line), location.column - 1, name, span.end_column)
        pattern = self.declarations.is_pattern(cursor)
        overrides = tuple(other.get_usr() for other in clang.overridden(cursor)) if self._may_override(cursor) else ()
        self.result.functions.append(
            FunctionRecord(
                identity,
                place,
                self.declarations.plain_type(cursor.type),
                nodes,
                overrides,
                pattern,
                cursor.linkage.name in ("EXTERNAL", "UNIQUE_EXTERNAL"),
            )
        )

    def _may_override(self, cursor: Cursor) -> bool:
        if kind_of(cursor) == "CXX_METHOD":
            return bool(cursor.is_virtual_method())
        return kind_of(cursor) == "DESTRUCTOR"
