"""The house rules, checked on the sources of all packages: who imports whom, what the job's side may use, and size."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import is_dataclass
from functools import cache
from pathlib import Path

import pytest

from scalana.detectors import evidence, finding
from scalana.detectors.analysis import Analysis
from scalana.report.topics.table import TOPICS
from scalana.runtime.hooks import HOOKS

ROOT = Path(__file__).resolve().parents[1]

FOLDERS = {
    "scalana": "scalana",
    "detectors": "scalana.detectors",
    "frontend": "scalana.frontend",
    "graphs": "scalana.graphs",
    "runtime": "scalana.runtime",
}
"""Top-level folder -> package under which it installs."""

SHARED = ("scalana.runtime.operations", "scalana.runtime.record.span_kinds")
"""The table of operations, and the words by which spans are marked: front ends, graphs and detectors read them."""

CACHE = "scalana.runtime.user_cache"
"""The one cache of the user. Jobs, front ends and loops that are compiled all keep things there, and the job's side may
import nobody."""

ALLOWED: dict[str, tuple[str, ...]] = {
    "scalana": ("scalana.detectors", "scalana.frontend", "scalana.graphs", "scalana.runtime"),
    "detectors": ("scalana.graphs", *SHARED),
    "frontend": ("scalana.graphs", CACHE, *SHARED),
    "graphs": ("scalana.runtime.record.format", "scalana.runtime.record.layout", CACHE, *SHARED),
    "runtime": (),
}
"""What each folder may import of the others."""

MOST_LINES = 600

INSIDE_THE_JOB = {"torch", "mpi4py"}
"""The recorders of these look at what the user's program imported, inside functions and never on their own."""

# Written in pieces, so that this file passes its own test.
FORBIDDEN = [
    "/wo" + "rk/",
    "/tmp/pl" + "an",
    r"\.\./sha" + "red",
    "/root" + "/",
    "TO" + "DO",
    "FIX" + "ME",
    r"\bX" + r"XX\b",
    "as an " + "AI",
]


def sources() -> list[Path]:
    """Every Python file of the five packages."""
    return [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]


def texts() -> list[Path]:
    """Every file that people read: sources, tests, samples, documents and build files."""
    suffixes = {".py", ".c", ".h", ".md", ".json", ".toml", ".txt"}
    folders = [*FOLDERS, "tests", "samples", "docs", ".ci"]
    found = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in suffixes]
    return sorted(found) + [ROOT / "README.md", ROOT / "pyproject.toml", ROOT / "Makefile", ROOT / ".ci" / "run"]


def module_name(path: Path) -> str:
    """The dotted name under which a source file installs."""
    folder, *rest = path.relative_to(ROOT).with_suffix("").parts
    parts = [FOLDERS[folder], *rest]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a source file."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """All statements of a tree, and what holds some: not the expressions, which are most of it, and import nothing."""
    stack = [tree]
    while stack:
        node = stack.pop()
        yield node
        for field in ("body", "orelse", "handlers", "cases", "finalbody"):
            inside = getattr(node, field, ())
            stack += inside if isinstance(inside, list) else ()


@cache
def imports(path: Path) -> list[tuple[str, ast.stmt]]:
    """Every module that a file imports, absolute, wherever in the file the import stands."""
    package = module_name(path) if path.name == "__init__.py" else module_name(path).rpartition(".")[0]
    found: list[tuple[str, ast.stmt]] = []
    for node in statements(tree_of(path)):
        if isinstance(node, ast.Import):
            found += [(alias.name, node) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, base] if base else above)
            # `from scalana import detectors` imports the module scalana.detectors
            found += [(f"{base}.{alias.name}", node) for alias in node.names]
    return found


def home(module: str) -> str | None:
    """The top-level folder to which an imported module belongs, None for one that is not ours."""
    if module.split(".")[0] != "scalana":
        return None
    for folder, package in FOLDERS.items():
        if folder != "scalana" and (module == package or module.startswith(package + ".")):
            return folder
    return "scalana"


def top_level(tree: ast.Module) -> Iterator[ast.stmt]:
    """Statements that run when a module is imported, those under ``if TYPE_CHECKING`` left out."""
    stack: list[ast.stmt] = list(tree.body)
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            stack.extend(node.orelse)
            continue
        for field in ("body", "orelse", "finalbody"):
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                stack.extend(child for child in getattr(node, field, []) if isinstance(child, ast.stmt))
        for handler in getattr(node, "handlers", []):
            stack.extend(handler.body)


def type_checking_only(tree: ast.Module) -> set[int]:
    """Ids of the import statements below ``if TYPE_CHECKING``."""
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            found |= {
                child.lineno for statement in node.body for child in ast.walk(statement) if hasattr(child, "lineno")
            }
    return found


def test_imports_follow_the_arrows() -> None:
    wrong = []
    for path in sources():
        folder = path.relative_to(ROOT).parts[0]
        for module, node in imports(path):
            target = home(module)
            if target is None or target == folder:
                continue
            # The version, and nothing else of the front door, is known everywhere.
            if module == "scalana.version.__version__":
                continue
            if not any(f"{module}.".startswith(f"{allowed}.") for allowed in ALLOWED[folder]):
                wrong.append(f"{path.relative_to(ROOT)}:{node.lineno} imports {module}")
    assert not wrong


ROOMS = {
    "graphs": (
        ("arrays",),
        ("timeline", "structure"),
        ("metrics", "readers"),
        ("progress",),
        ("attribution",),
        ("calls",),
        ("samples",),
        ("adjust", "bursts", "dependences", "spans", "steps"),
        ("host_cores", "host_traffic", "lost_hosts"),
        ("run_info",),
        ("ppg",),
    ),
    "detectors": (
        ("thresholds",),
        ("evidence", "section_name", "source_calls", "kind"),
        ("finding", "shared_kinds", "uneven_kinds", "account"),
        ("kinds",),
        ("delays", "streams"),
        ("rollup",),
        ("whatif", "when"),
        ("noise", "efficiency", "lengths", "sources"),
        ("facts", "analysis", "reconcile", "ranking"),
        ("detector", "annotator"),
        (
            "late_ranks",
            "limits",
            "slow_workers",
            "serving",
            "experts",
            "hang",
            "device",
            "pipeline",
            "rl",
            "runs",
            "annotate",
        ),
        ("registry", "compile_ahead", "advice"),
        ("run",),
    ),
    "graphs/readers": (("processes", "portable"), ("folder",), ("columns",)),
    "detectors/pipeline": (
        ("advice",),
        ("model",),
        ("measured",),
        ("recognised",),
        ("diagnosis",),
        ("plans",),
        ("detector",),
    ),
    "frontend/cpp": (
        ("names", "unit", "cache"),
        ("binary", "source"),
        ("evidence",),
        ("resolve",),
        ("build",),
    ),
}
"""Of each folder its rooms, and modules that stand outside of one, from the bottom up: a row may import rows above it
here, and nothing of its own row but itself."""


LOAD_BY_NAME = ("scalana.runtime.hooks", "scalana.detectors.registry", "scalana.report.topics.table")


@cache
def graph() -> dict[str, set[str]]:
    """Which of our modules each imports, wherever in the file, for whatever purpose."""
    modules = {module_name(path): path for path in sources()}
    found: dict[str, set[str]] = {}
    for module, path in modules.items():
        names = {name for name, _ in imports(path)}
        # A name is a module, or something that its package or module defines.
        homes = {name if name in modules else name.rpartition(".")[0] for name in names}
        if module in LOAD_BY_NAME:  # each has a table of others
            homes |= {node.value for node in ast.walk(tree_of(path)) if isinstance(node, ast.Constant)} & set(modules)
        found[module] = {home for home in homes if home in modules} - {module}
    return found


@pytest.mark.parametrize("folder", ROOMS)
def test_rooms_import_downwards(folder: str) -> None:
    top, *inside = folder.split("/")
    package = ".".join([FOLDERS[top], *inside])
    height = {room: level for level, rooms in enumerate(ROOMS[folder]) for room in rooms}
    wrong = []
    for module, imported in graph().items():
        if not module.startswith(f"{package}."):
            continue
        room = module[len(package) + 1 :].split(".")[0]
        assert room in height, f"{module} is in no room: put it into ROOMS, and into docs/architecture.md"
        for other in imported:
            if other.startswith(f"{package}."):
                below = other[len(package) + 1 :].split(".")[0]
                if below != room and height[below] >= height[room]:
                    wrong.append(f"{module} imports {other}")
    assert not wrong


MOST_FILES = 20
"""Files of a folder, from which it should be several rooms."""


def test_folders_have_few_files() -> None:
    count: dict[str, int] = {}
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in {".py", ".c", ".h", ".cpp"} and path.name != "__init__.py":
                name = str(path.parent.relative_to(ROOT))
                count[name] = count.get(name, 0) + 1
    assert {name: files for name, files in count.items() if files > MOST_FILES} == {}


SHARED_NAMES = {"detectors": {"detector", "causes", "account", "advice"}, "graphs": set()}
"""Names of modules that several rooms of a folder may have."""


@pytest.mark.parametrize("folder", SHARED_NAMES)
def test_names_of_modules_are_unique(folder: str) -> None:
    names = [path.stem for path in (ROOT / folder).rglob("*.py") if path.name != "__init__.py"]
    assert {name for name in names if names.count(name) > 1} <= SHARED_NAMES[folder]


RENDERERS = tuple(f"scalana.report.{name}" for name in ("document", "text", "html", "json", "sarif"))
"""What draws a report, and what it draws: sections and findings as data."""
GENERAL = {"time", "ranks", "places", "steps"}
"""Names of topics that are words of every report."""


def test_loops_are_compiled_in_one_way() -> None:
    """By numba itself, their machine code would be written beside the sources."""
    others = [path for path in sources() if path != ROOT / "graphs" / "arrays" / "compiled_loops.py"]
    assert len(others) == len(sources()) - 1
    found = [path for path in others if re.search(r"\bnjit\b|numba\.jit", path.read_text(encoding="utf-8"))]
    assert found == [], "use scalana.graphs.arrays.compiled_loops.compiled"


def test_renderers_know_no_topic() -> None:
    """A topic is a module and a row: whoever adds one looks at no renderer."""
    topics = {topic.name for topic in TOPICS} - GENERAL
    words = re.compile("|".join(rf"(?<![a-z]){re.escape(name)}(?![a-z-])" for name in topics), re.IGNORECASE)
    wrong = []
    for path in sources():
        module = module_name(path)
        if not any(f"{module}.".startswith(f"{renderer}.") for renderer in RENDERERS):
            continue
        wrong += [f"{module} imports {name}" for name, _ in imports(path) if name.startswith("scalana.report.topics")]
        for node in ast.walk(tree_of(path)):
            used = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                used = node.value
            wrong += [f"{module} says {found.group()}" for found in words.finditer(used)]
    assert not wrong
    assert words.search("the pipeline") and not words.search("pipelines")  # the check itself sees one


def assigned(tree: ast.AST) -> Iterator[ast.Attribute]:
    """The attributes that statements of a tree assign to."""
    for node in ast.walk(tree):
        targets = node.targets if isinstance(node, ast.Assign) else []
        targets = [node.target] if isinstance(node, (ast.AugAssign, ast.AnnAssign)) else targets
        for target in targets:
            inside = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
            yield from (one for one in inside if isinstance(one, ast.Attribute))


def is_of_graph(target: ast.Attribute) -> bool:
    """Whether an attribute is one of a graph, or of something in it: ``ppg.x``, ``analysis.ppg.x.y``."""
    owner: ast.expr = target.value
    while isinstance(owner, (ast.Attribute, ast.Subscript)):
        if isinstance(owner, ast.Attribute) and owner.attr == "ppg":
            return True
        owner = owner.value
    return isinstance(owner, ast.Name) and owner.id == "ppg"


def test_no_graph_changes_once_it_is_made() -> None:
    code = "ppg.run = 1\nanalysis.ppg.spans.vertex = 2\nppg.run.notes += [3]\nx.y, self.ppg.host = 4, 5\nself.ppg = ppg"
    assert [ast.unparse(one) for one in assigned(ast.parse(code)) if is_of_graph(one)] == [
        "ppg.run", "analysis.ppg.spans.vertex", "ppg.run.notes", "self.ppg.host",
    ]  # fmt: skip
    wrong = [
        f"{path.relative_to(ROOT)}:{target.lineno} assigns to {ast.unparse(target)}"
        for path in sources()
        if path != ROOT / "graphs" / "ppg.py"
        for target in assigned(tree_of(path))
        if is_of_graph(target)
    ]
    assert not wrong


def test_findings_and_analyses_do_not_change_once_they_are_made() -> None:
    topics = [one for one in vars(evidence).values() if isinstance(one, type) and is_dataclass(one)]
    assert evidence.Evidence in topics and len(topics) > 10
    for kind in (*topics, finding.Finding, finding.Hop, finding.Series, finding.Where, Analysis):
        assert kind.__dataclass_params__.frozen, kind


def test_detectors_return_and_do_not_tell() -> None:
    """What was once called telling a finding something: it is annotated."""
    telling = re.compile(r"_?(told|tell|tells|telling)(_|$)|_?(Told|Tell)")
    wrong = []
    for path in sorted((ROOT / "detectors").rglob("*.py")):
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        names = [path.stem, *(node.name for node in ast.walk(tree_of(path)) if isinstance(node, kinds))]
        wrong += [f"{path.relative_to(ROOT)}: {name}" for name in names if telling.match(name)]
    assert not wrong


def test_hooks_lead_to_functions() -> None:
    for _, home, function in HOOKS:
        assert callable(getattr(importlib.import_module(home), function)), (home, function)


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Modules that lead back to themselves, by Tarjan's algorithm (1972)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        number[module] = low[module] = len(number)
        stack.append(module)
        for other in sorted(edges[module]):
            if other not in number:
                visit(other)
            if other in stack:
                low[module] = min(low[module], low[other])
        if low[module] == number[module]:
            circle = stack[stack.index(module) :]
            del stack[stack.index(module) :]
            if len(circle) > 1:
                found.append(circle)

    for module in sorted(edges):
        if module not in number:
            visit(module)
    return found


def test_no_module_leads_back_to_itself() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]  # the check itself sees one
    assert circles(graph()) == []


C_ROOMS = {
    "runtime/_core": (
        ("base",),
        ("record",),
        ("recorder",),
        ("frames",),
        ("threads",),
        ("sampler", "torch"),
        ("module",),
    ),
    "runtime/mpi": (
        ("unwind",),
        ("callers",),
        ("sampling",),
        ("agent",),
        ("handles",),
        ("calls",),
    ),
}
"""As :data:`ROOMS`, of the sources in C, which name each other by room: ``#include "record/writer.h"``."""

C_SHARED = {"base", "record", "recorder", "frames", "threads", "sampler"}
"""Rooms of ``runtime/_core`` that the recorder of MPI uses too, in processes without Python."""


@cache
def c_graph() -> dict[str, set[str]]:
    """Which of our modules of C each includes; a module is a header with the source of that name, or one of them."""
    files = {path for folder in C_ROOMS for path in (ROOT / folder).rglob("*") if path.suffix in (".c", ".cpp", ".h")}
    found: dict[str, set[str]] = {str(path.relative_to(ROOT).with_suffix("")): set() for path in files}
    for path in files:
        module = str(path.relative_to(ROOT).with_suffix(""))
        for name in re.findall(r'^ *# *include "(.+)"', path.read_text(encoding="utf-8"), re.M):
            homes = {base / name for base in (path.parent, *(ROOT / folder for folder in C_ROOMS))} & files
            assert len(homes) == 1, f"{path.relative_to(ROOT)} includes {name}, which is {len(homes)} of our files"
            found[module] |= {str(home.relative_to(ROOT).with_suffix("")) for home in homes} - {module}
    return found


def test_no_module_of_c_leads_back_to_itself() -> None:
    """With their headers: none includes itself by way of others, nor is a source included by what it includes."""
    assert circles(c_graph()) == []


def test_rooms_of_c_include_downwards() -> None:
    below = {
        (folder, room): level for folder, rows in C_ROOMS.items() for level, row in enumerate(rows) for room in row
    }

    def room_of(module: str) -> tuple[str, str]:
        folder = next(folder for folder in C_ROOMS if module.startswith(f"{folder}/"))
        room = (folder, module[len(folder) + 1 :].split("/")[0])
        assert room in below, f"{module} is in no room: put it into C_ROOMS, and into docs/architecture.md"
        return room

    wrong = []
    for module, included in c_graph().items():
        for other in included:
            room, its = room_of(module), room_of(other)
            elsewhere = room[0] != its[0]
            if elsewhere and (room[0] == "runtime/_core" or its[1] not in C_SHARED):
                wrong.append(f"{module} includes {other}")
            elif not elsewhere and room != its and below[its] >= below[room]:
                wrong.append(f"{module} includes {other}")
    assert not wrong


def test_the_jobs_side_needs_the_standard_library_alone() -> None:
    wrong = []
    for path in sorted((ROOT / "runtime").rglob("*.py")):
        tree = tree_of(path)
        at_import = {id(node) for node in top_level(tree)}
        for_types = type_checking_only(tree)
        for module, node in imports(path):
            name = module.split(".")[0]
            if name in sys.stdlib_module_names or name in ("scalana", "sitecustomize") or node.lineno in for_types:
                continue
            if name not in INSIDE_THE_JOB or id(node) in at_import:
                wrong.append(f"{path.relative_to(ROOT)}:{node.lineno} imports {module}")
    assert not wrong


def test_torch_is_imported_when_somebody_asks_for_it_alone() -> None:
    """It takes seconds, and is optional. Jobs of ours are programs of their own, that only each other import."""
    programs = "scalana.verify.jobs"
    outside = {module: others for module, others in graph().items() if not module.startswith(programs)}
    assert not [module for module, others in outside.items() if any(one.startswith(programs) for one in others)]
    for path in sources():
        if module_name(path).startswith(programs):
            continue
        for node in top_level(tree_of(path)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any(name.split(".")[0] == "torch" for name in names), f"{path.relative_to(ROOT)}:{node.lineno}"


def test_every_package_is_installed() -> None:
    if sys.version_info < (3, 11):
        pytest.skip("tomllib is of Python 3.11")
    import tomllib

    listed = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    present = {module_name(path) for path in sources() if path.name == "__init__.py"}
    assert listed == present


def test_files_are_short_and_speak_of_the_project_alone() -> None:
    wrong = []
    forbidden = re.compile("|".join(FORBIDDEN))
    for path in texts():
        text = path.read_text(encoding="utf-8")
        if text.count("\n") > MOST_LINES:
            wrong.append(f"{path.relative_to(ROOT)} is too long")
        for found in forbidden.finditer(text):
            line = text.count("\n", 0, found.start()) + 1
            wrong.append(f"{path.relative_to(ROOT)} line {line}: {found.group()}")
    assert not wrong


def test_public_things_are_documented() -> None:
    missing = []
    for path in sources():
        tree = tree_of(path)
        if path.name != "__init__.py" or tree.body:
            missing += [] if ast.get_docstring(tree) else [f"{path.relative_to(ROOT)}: module"]
        for node in tree.body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and not node.name.startswith("_"):
                missing += [] if ast.get_docstring(node) else [f"{path.relative_to(ROOT)}: {node.name}"]
    assert not missing


HEAVY = (
    "numpy",
    "networkx",
    "numba",
    "pandas",
    "rich",
    "torch",
    "pathlib",
    "argparse",
    "subprocess",
    "json",
    "inspect",
)


def loaded_by(statement: str) -> set[str]:
    """Which of :data:`HEAVY` a fresh interpreter loads for ``statement``, beyond what it starts with."""
    program = (
        "import sys; before = set(sys.modules)\n"
        f"{statement}\n"
        f"print(' '.join(name for name in {HEAVY!r} if name in sys.modules and name not in before))"
    )
    result = subprocess.run(
        [sys.executable, "-S", "-c", program], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    return set(result.stdout.split())


def test_importing_scalana_loads_nothing_heavy() -> None:
    assert loaded_by("import scalana") == set()
    assert "json" in loaded_by("import scalana, json")  # the check itself sees what is loaded


def test_what_the_job_uses_of_the_api_loads_nothing_heavy() -> None:
    assert not loaded_by("import scalana; scalana.region; scalana.step; scalana.profile") - {"inspect"}


def test_the_command_line_starts_without_the_analysis() -> None:
    loaded = loaded_by("from scalana.cli import parser; parser()")
    assert loaded.isdisjoint({"numpy", "networkx", "numba", "pandas", "rich", "torch"})


def test_names_of_the_public_api() -> None:
    import scalana

    assert set(scalana.__all__) <= set(dir(scalana))
    with pytest.raises(AttributeError, match="no_such_name"):
        scalana.no_such_name  # noqa: B018
