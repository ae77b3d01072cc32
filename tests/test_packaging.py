"""What is published: the source distribution is complete, and the wheel built from it works without the checkout."""

from __future__ import annotations

import json
import os
import shutil
import site
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.attempts import attempts
from tests.needs import torch_or_skip
from tests.samples.planted import read_sample

ROOT = Path(__file__).resolve().parents[1]
NOT_SHIPPED = {".gitignore"}
MADE = ("PKG-INFO", "setup.cfg", "scalana.egg-info/")
"""What setuptools adds to a source distribution."""

pytestmark = pytest.mark.slow


def run(words: Sequence[object], cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs a program as if there were no checkout and no recording around it."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "SCALANA_RUN_DIR")}
    done = subprocess.run(
        [str(word) for word in words], cwd=cwd, env={**kept, **variables}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done


def build(source: Path, what: str, into: Path) -> Path:
    """Builds an ``sdist`` or a ``wheel`` as installers do, with the setuptools at hand."""
    program = f"from setuptools import build_meta; print(build_meta.build_{what}({str(into)!r}))"
    return into / run([sys.executable, "-c", program], source).stdout.splitlines()[-1]


def tracked() -> set[str]:
    """The files of the checkout, as git knows them."""
    if not (ROOT / ".git").exists():
        pytest.skip("no checkout of git to compare with")
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    return {name for name in run(words, ROOT).stdout.split("\0") if name and (ROOT / name).exists()}


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution, unpacked. It is built from a copy: building leaves files beside the sources."""
    work = tmp_path_factory.mktemp("sdist")
    for name in tracked():
        (work / "checkout" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, work / "checkout" / name)
    with tarfile.open(build(work / "checkout", "sdist", work)) as archive:
        archive.extractall(work / "unpacked")  # our own
    (folder,) = (work / "unpacked").iterdir()
    return folder


@pytest.fixture(scope="module")
def installed(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that has the wheel, and sees the packages that are installed here.

    Folders named in a ``.pth`` file are searched, but ``.pth`` files in them are not read: what is installed here in
    place, scalana itself, is not seen.
    """
    work = tmp_path_factory.mktemp("wheel")
    run([sys.executable, "-m", "venv", "--without-pip", work / "venv"], work)
    python = work / "venv" / "bin" / "python"
    own = Path(run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], work).stdout.strip())
    (own / "others.pth").write_text("".join(f"{folder}\n" for folder in site.getsitepackages()))
    wheel = build(sdist, "wheel", work)
    pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check"]
    run([*pip, "install", "--quiet", "--no-index", "--no-deps", "--no-compile", "--ignore-installed", wheel], work)
    hand_on_loops(own / "scalana")
    return python


def hand_on_loops(package: Path) -> None:
    """Gives a package the loops that numba has compiled here of the same files: they take it half a minute.

    Numba takes them for its own where a file has the same name, size and time.
    """
    for file in package.rglob("*.py"):
        name = file.relative_to(package)
        source = ROOT / (name if (ROOT / name).is_file() else Path("scalana", name))
        os.utime(file, ns=(source.stat().st_atime_ns, source.stat().st_mtime_ns))
        for compiled in (source.parent / "__pycache__").glob(f"{file.stem}.*.nb?"):
            (file.parent / "__pycache__").mkdir(exist_ok=True)
            shutil.copy2(compiled, file.parent / "__pycache__")


def test_the_source_distribution_is_complete(sdist: Path) -> None:
    shipped = {str(path.relative_to(sdist)) for path in sdist.rglob("*") if path.is_file()}
    wanted = tracked() - NOT_SHIPPED
    assert wanted - shipped == set(), "missing: name them in MANIFEST.in"
    assert {name for name in shipped - wanted if not name.startswith(MADE)} == set(), "more than git tracks"
    assert "LICENSE" in shipped


def test_the_wheel_is_what_runs(installed: Path, tmp_path: Path) -> None:
    program = "import scalana, scalana.runtime._core; print(scalana.__file__); print(scalana.runtime._core.__file__)"
    for line in run([installed, "-c", program], tmp_path).stdout.splitlines():
        assert Path(line).is_relative_to(installed.parents[1]), line


@pytest.mark.parametrize("folder", ["runtime/_core", "runtime/mpi"])
def test_the_wheel_has_what_is_compiled_on_demand(folder: str, installed: Path, tmp_path: Path) -> None:
    package = Path(run([installed, "-c", "import scalana; print(scalana.__file__)"], tmp_path).stdout.strip()).parent

    def sources(root: Path) -> set[str]:
        return {str(path.relative_to(root)) for path in root.rglob("*") if path.suffix in (".c", ".cpp", ".h")}

    assert sources(ROOT / folder)
    assert sources(package / folder) == sources(ROOT / folder)


def test_the_command_says_what_it_can_do(installed: Path, tmp_path: Path) -> None:
    said = run([installed.with_name("scalana"), "--help"], tmp_path).stdout
    assert all(command in said for command in ("run", "report", "scaling", "diff", "psg"))


def test_the_demo_finds_the_planted_line(sdist: Path, installed: Path, tmp_path: Path) -> None:
    torch_or_skip()
    sample = read_sample(sdist / "samples" / "slow_augmentation.py")
    (fault,) = sample.faults
    launch = [installed, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", sample.ranks, sample.path]
    found: list[dict[str, object]] = []
    for number in attempts(3):  # four ranks, on cores that others may want
        words = [installed.with_name("scalana"), "run", "--format", "json", "-o", f"run-{number}", "--", *launch]
        run(words, tmp_path, OMP_NUM_THREADS="1")
        report = json.loads((tmp_path / f"run-{number}" / "report.json").read_text())
        roots = [finding["root"] for finding in report["findings"][:1]]
        if any(fault.line <= root["line"] <= fault.end_line for root in roots):
            assert Path(tmp_path, roots[0]["file"]).resolve() == sample.path.resolve()
            return
        found = roots
    pytest.fail(f"planted at {fault.line} to {fault.end_line}, found {found}")
