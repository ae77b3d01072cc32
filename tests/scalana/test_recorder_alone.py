"""Where only the recorder is installed: nothing but the standard library is imported, and others analyse."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import scalana
from scalana import analysis_home
from scalana.errors import AnalysisMissing, UsageError
from tests.installed import SITE
from tests.scalana.command import command

ROOT = Path(__file__).resolve().parents[2]

ALONE = """\
import os, sys
sys.path[:] = [entry for entry in sys.path if entry and "site-packages" not in entry]
sys.meta_path[:] = [finder for finder in sys.meta_path if isinstance(finder, type)]  # no editable installs

class Block:
    @staticmethod
    def find_spec(name, path=None, target=None):
        top = name.partition(".")[0]
        # The standard library itself asks for `org`, a package of Jython, when it imports `copy`.
        if top not in sys.stdlib_module_names and top not in ("scalana", "sitecustomize", "org"):
            foreign.append(name)

foreign = []
sys.meta_path.insert(0, Block)
sys.path.insert(0, sys.argv.pop(1))
"""
"""What a program begins with that shall find nothing but the standard library and scalana; ``foreign`` is what it asks
for all the same."""

JOB = """\
import scalana
with scalana.profile(sys.argv[1]):
    for _ in range(3):
        with scalana.span("piece"):
            sum(range(1000))
        scalana.step()
"""


def alone(program: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a program where there is only the standard library, and this scalana."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SCALANA_R"))}
    return subprocess.run(
        [sys.executable, "-c", f"{ALONE}{program}", SITE, *arguments],
        env={**kept, "SCALANA_CACHE": "/nonexistent/cache"},
        capture_output=True,
        text=True,
        timeout=120,
    )


def said(done: subprocess.CompletedProcess[str]) -> str:
    """What a program printed that ended well."""
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["--version"], ["run", "--help"], ["report", "--help"], ["setup-report", "--help"]],
    ids=" ".join,
)
def test_help_needs_nothing_but_the_standard_library(arguments: list[str]) -> None:
    program = (
        "from scalana.cli import main\ntry:\n    main(sys.argv[1:])\nexcept SystemExit as left:\n"
        "    print('left', left.code, foreign)"
    )
    assert said(alone(program, *arguments)).endswith("left 0 []\n")


def test_a_job_imports_nothing_but_the_standard_library(tmp_path: Path) -> None:
    assert said(alone(f"{JOB}print(foreign)", tmp_path / "run")) == "[]\n"
    text = command("report", tmp_path / "run").stdout
    assert "piece" in text


def test_run_records_without_an_analysis(tmp_path: Path) -> None:
    """Of the command itself: the job's own interpreter is as it always is."""
    program = (
        "from scalana.cli import main\n"
        "code = main(['run', '-o', sys.argv[1], '--', sys.executable, '-S', '-c', 'import site; print(1)'])\n"
        "print(code, foreign)"
    )
    done = alone(program, tmp_path / "run")
    assert said(done).splitlines()[0] == "1"
    # Only to see that these packages are not there is asked for them.
    asked = re.search(r"0 \[(.*)\]", done.stdout)
    assert asked is not None
    assert {name.strip("' ") for name in asked.group(1).split(",") if name} <= {
        need.module for need in analysis_home.REQUIREMENTS
    }


def test_the_library_says_what_to_install(tmp_path: Path) -> None:
    program = "import scalana\ntry:\n    scalana.analyze(sys.argv[1])\nexcept ImportError as error:\n    print(error)"
    message = said(alone(program, tmp_path))
    assert "numba" in message and "pandas" in message and "pip install 'scalana[report]'" in message


def test_commands_that_analyse_say_what_to_install(tmp_path: Path) -> None:
    done = alone("from scalana.cli import main\nprint(main(['report', sys.argv[1]]))", tmp_path)
    assert said(done) == "1\n"
    assert "pip install 'scalana[report]'" in done.stderr and "scalana setup-report" in done.stderr


def test_another_python_reports(tmp_path: Path) -> None:
    """Here the same interpreter with its packages: what it loads of scalana is what recorded."""
    said(alone(JOB, tmp_path / "run"))
    program = (
        "import os\nos.environ['SCALANA_REPORT'] = sys.prefix\n"
        "from scalana.cli import main\nsys.exit(main(['report', sys.argv[1]]))"
    )
    assert "piece" in said(alone(program, tmp_path / "run"))


def test_the_packages_are_those_of_the_extra() -> None:
    tomllib = pytest.importorskip("tomllib")  # of Python 3.11
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["dependencies"] == []
    assert project["optional-dependencies"]["report"] == [str(need) for need in analysis_home.REQUIREMENTS]


def test_packages_that_are_too_old_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"numba": "0.58.1", "numpy": "1.24.0", "pandas": "1.5.3"}
    monkeypatch.setattr(analysis_home, "_installed", lambda package: versions.get(package, ""))
    assert analysis_home.missing() == ["numba 0.59 or newer"]
    with pytest.raises(AnalysisMissing, match="numba 0.59 or newer"):
        scalana.analyze("any")


def environment(folder: Path, python: str = sys.executable) -> Path:
    """What looks like an environment."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").symlink_to(python)
    return folder


def test_which_python_analyses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = {"SCALANA_CACHE": str(tmp_path / "cache")}
    one, other = environment(tmp_path / "one"), environment(tmp_path / "other")
    assert analysis_home.elsewhere(None, cache) is None  # this one has all
    assert analysis_home.elsewhere(None, {"SCALANA_REPORT": str(one)}) == str(one / "bin" / "python")
    python = str(other / "bin" / "python")
    assert analysis_home.elsewhere(python, {"SCALANA_REPORT": str(one)}) == python
    monkeypatch.setattr(analysis_home, "missing", lambda: ["numba", "pandas"])
    with pytest.raises(AnalysisMissing, match="lacks numba and pandas.*setup-report"):
        analysis_home.elsewhere(None, cache)
    made = environment(Path(analysis_home.environment_folder(cache)))
    with pytest.raises(AnalysisMissing):  # its packages are not all there yet
        analysis_home.elsewhere(None, cache)
    (made / "complete").touch()
    assert analysis_home.elsewhere(None, cache) == str(made / "bin" / "python")


@pytest.mark.parametrize("wrong", ["no/such/python", "."])
def test_a_python_that_is_none(wrong: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="name an interpreter"):
        analysis_home.elsewhere(wrong, {})
    done = command("run", "-o", tmp_path / "run", "--report-with", wrong, "--", "true", cwd=tmp_path)
    assert done.returncode == 2 and "--report-with" in done.stderr
    assert not (tmp_path / "run").exists()


def test_setup_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the environment of the analysis: what is asked of venv and pip, and what is said where they fail."""
    monkeypatch.setenv("SCALANA_CACHE", str(tmp_path / "cache"))
    ran: list[list[str]] = []

    def note(words: list[str], **_: object) -> None:
        ran.append(words)
        if words[1:3] == ["-m", "venv"]:
            environment(Path(words[-1]))

    monkeypatch.setattr(analysis_home.subprocess, "run", note)
    assert command("setup-report", "--", "--no-index", "--find-links", "wheels").returncode == 0
    assert [words[2] for words in ran] == ["venv", "pip"]
    assert {"--no-index", "--find-links", "wheels", "numba>=0.59"} <= set(ran[1])
    assert "is ready" in command("setup-report").stderr and len(ran) == 2


def test_setup_report_where_pip_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALANA_CACHE", str(tmp_path / "cache"))

    def fail(words: list[str], **_: object) -> None:
        raise subprocess.CalledProcessError(1, words)

    monkeypatch.setattr(analysis_home.subprocess, "run", fail)
    done = command("setup-report")
    assert done.returncode == 1 and "--find-links" in done.stderr
