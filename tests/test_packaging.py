"""What is published: the source distribution is complete, and the wheel built from it works without the checkout."""

from __future__ import annotations

import json
import os
import re
import shutil
import site
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from numba.core.caching import _CacheLocator
from packaging.requirements import Requirement

from scalana import analysis_home
from scalana.graphs.arrays import compiled_loops
from scalana.version import __version__
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


def build(source: Path, what: str, into: Path, **variables: str) -> Path:
    """Builds an ``sdist`` or a ``wheel`` as installers do, with the setuptools at hand."""
    program = f"from setuptools import build_meta; print(build_meta.build_{what}({str(into)!r}))"
    return into / run([sys.executable, "-c", program], source, **variables).stdout.splitlines()[-1]


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
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the source distribution where there is no C++ compiler."""
    work = tmp_path_factory.mktemp("wheel")
    return build(sdist, "wheel", work, CXX="/bin/false")


@pytest.fixture(scope="module")
def published(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """What a release publishes of the wheel: that of the recorder, and that of the analysis."""
    words = [sys.executable, ROOT / ".ci" / "split_wheel.py", "--report", wheel, tmp_path_factory.mktemp("published")]
    recorder, report = run(words, ROOT).stdout.splitlines()
    return Path(recorder), Path(report)


def environment(folder: Path, wheel: Path, others: str = "") -> Path:
    """The Python of a new environment that has the wheel, and sees the packages in folders."""
    run([sys.executable, "-m", "venv", "--without-pip", folder], folder.parent)
    python = folder / "bin" / "python"
    (site_of(python) / "others.pth").write_text(others)
    pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check"]
    run([*pip, "install", "--quiet", "--no-index", "--no-compile", "--ignore-installed", "--no-deps", wheel], folder)
    return python


def site_of(python: Path) -> Path:
    """Where an environment has its packages."""
    program = "import sysconfig; print(sysconfig.get_path('purelib'))"
    return Path(run([python, "-c", program], python.parent).stdout.strip())


def packages_here() -> str:
    """What an environment needs in a ``.pth`` file to see the packages that are installed here.

    Folders named there are searched, but ``.pth`` files in them are not read: what is installed here in place, scalana
    itself, is not seen.
    """
    return "".join(f"{folder}\n" for folder in site.getsitepackages())


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The Python of an environment that has the wheel, and sees the packages that are installed here."""
    python = environment(tmp_path_factory.mktemp("installed") / "venv", wheel, packages_here())
    handed_on = hand_on_loops(package_of(python))
    yield python
    for folder in handed_on:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def alone(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The Python of an environment that has the wheel and nothing else at all, not even pip."""
    python = environment(tmp_path_factory.mktemp("alone") / "venv", wheel)
    handed_on = hand_on_loops(package_of(python))
    yield python
    for folder in handed_on:
        shutil.rmtree(folder, ignore_errors=True)


def package_of(python: Path) -> Path:
    """Where an environment has scalana."""
    return Path(run([python, "-c", "import scalana; print(scalana.__file__)"], python.parent).stdout.strip()).parent


def hand_on_loops(package: Path) -> list[Path]:
    """Gives a package the loops that numba has compiled here of the same files: they take it half a minute. Returns the
    folders of the cache that it has from now on.

    Numba takes them for its own where a file has the same name, size and time.
    """
    found: set[Path] = set()
    for file in package.rglob("*.py"):
        name = file.relative_to(package)
        source = ROOT / (name if (ROOT / name).is_file() else Path("scalana", name))
        os.utime(file, ns=(source.stat().st_atime_ns, source.stat().st_mtime_ns))
        target = cache_of(file)
        for made in cache_of(source).glob(f"{file.stem}.*.nb?"):
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy2(made, target)
        found.add(target)
    return sorted(found)


def cache_of(source: Path) -> Path:
    """Where the machine code of a file's loops is kept."""
    return Path(compiled_loops._folder(), _CacheLocator.get_suitable_cache_subpath(str(source)))


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
def test_the_wheel_has_what_is_compiled_on_demand(folder: str, installed: Path) -> None:
    package = package_of(installed)

    def sources(root: Path) -> set[str]:
        return {str(path.relative_to(root)) for path in root.rglob("*") if path.suffix in (".c", ".cpp", ".h")}

    assert sources(ROOT / folder)
    assert sources(package / folder) == sources(ROOT / folder)


def test_the_command_says_what_it_can_do(installed: Path, tmp_path: Path) -> None:
    said = run([installed.with_name("scalana"), "--help"], tmp_path).stdout
    assert all(command in said for command in ("run", "report", "scaling", "diff", "psg"))


@pytest.mark.long
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


JOB = """\
import time

import scalana

for _ in range(4):
    with scalana.span("piece"):
        until = time.monotonic() + 0.05
        while time.monotonic() < until:
            sum(range(1000))
    scalana.step()
"""


def requirements(wheel: Path) -> set[str]:
    """What a wheel asks for, as it says that."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return set(re.findall(r"^Requires-Dist: (.*)$", archive.read(name).decode(), re.M))


def test_the_recorder_brings_no_package(wheel: Path, published: tuple[Path, Path]) -> None:
    for recorder in (wheel, published[0]):
        assert requirements(recorder) and all("extra ==" in need for need in requirements(recorder))


def test_a_job_is_recorded_by_one_environment_and_reported_by_another(alone: Path, tmp_path: Path) -> None:
    """What the recorder's environment holds is the same afterwards, and so is it read-only."""
    (tmp_path / "job.py").write_text(JOB)
    before = content_of(package_of(alone))
    without = run(
        [alone.with_name("scalana"), "run", "-o", "first", "--", alone, "job.py"],
        tmp_path,
        SCALANA_CACHE=str(tmp_path / "none"),
    )
    assert "scalana setup-report" in without.stderr and (tmp_path / "first" / "records").is_dir()
    assert not (tmp_path / "first" / "report.txt").exists()
    words = [alone.with_name("scalana"), "run", "--report-with", sys.executable, "-o", "second", "--", alone, "job.py"]
    assert "piece" in run(words, tmp_path).stderr
    assert json.loads((tmp_path / "second" / "report.json").read_text())["run"]["exit_code"] == 0
    assert (
        "piece" in run([alone.with_name("scalana"), "report", "first"], tmp_path, SCALANA_REPORT=sys.executable).stdout
    )
    assert content_of(package_of(alone)) == before


def content_of(folder: Path) -> set[str]:
    """What is in a folder, but for the byte code that Python keeps."""
    return {str(path) for path in folder.rglob("*") if "__pycache__" not in path.parts or path.suffix.startswith(".nb")}


@pytest.mark.long
def test_a_job_is_recorded_where_nothing_can_be_written_but_the_run(alone: Path, tmp_path: Path) -> None:
    """Home and cache are folders that nobody can make, and there is no compiler."""
    (tmp_path / "job.py").write_text(JOB)
    (tmp_path / "file").touch()
    nowhere = {
        "HOME": "/proc/none",
        "SCALANA_CACHE": str(tmp_path / "file" / "cache"),
        "CC": "/bin/false",
        "PATH": "/none",
        "NUMBA_CACHE_DIR": compiled_loops._folder(),  # not to wait for numba
    }
    words = [alone.with_name("scalana"), "run", "--report-with", sys.executable, "-o", "run", "--", alone, "job.py"]
    done = run([alone, alone.with_name("scalana"), *words[1:]], tmp_path, **nowhere)
    assert "piece" in done.stderr and "Traceback" not in done.stderr


def test_the_published_wheels_are_the_whole(wheel: Path, published: tuple[Path, Path]) -> None:
    def files(path: Path) -> dict[str, bytes]:
        with zipfile.ZipFile(path) as archive:
            assert archive.testzip() is None
            return {name: archive.read(name) for name in archive.namelist() if name.startswith("scalana/")}

    recorder, report = map(files, published)
    assert not recorder.keys() & report.keys()
    assert recorder | report == files(wheel)
    of_recorder, of_report = map(requirements, published)
    assert {need for need in of_recorder if "report" in need} == {f'scalana-report=={__version__}; extra == "report"'}
    asked = {Requirement(str(need)) for need in analysis_home.REQUIREMENTS}
    assert {Requirement(need) for need in of_report} == asked


def test_the_published_parts_work_together(published: tuple[Path, Path], tmp_path: Path) -> None:
    """The recorder in one environment, the analysis in another one, first of this version, then of an older one."""
    (tmp_path / "job.py").write_text(JOB)
    recorder, report = published
    job = environment(tmp_path / "job", recorder)
    command = job.with_name("scalana")
    without = run([command, "run", "-o", "run", "--", job, "job.py"], tmp_path, SCALANA_CACHE=str(tmp_path / "none"))
    needed = f"scalana-report=={__version__}"
    assert f"it lacks {needed}" in without.stderr and "scalana setup-report" in without.stderr

    analysis = environment(tmp_path / "analysis", report, packages_here())
    handed_on = hand_on_loops(site_of(analysis) / "scalana")
    try:
        assert "piece" in run([command, "report", "run"], tmp_path, SCALANA_REPORT=str(analysis)).stdout
    finally:
        for folder in handed_on:
            shutil.rmtree(folder, ignore_errors=True)

    (metadata,) = site_of(analysis).glob("scalana_report-*.dist-info/METADATA")
    metadata.write_text(metadata.read_text().replace(f"Version: {__version__}\n", "Version: 0.0.1\n"))
    words = [command, "run", "--report-with", analysis, "-o", "other", "--", job, "job.py"]
    assert f"{analysis} -m pip install '{needed}'" in run(words, tmp_path).stderr


@pytest.mark.long
def test_what_is_built_without_the_extension_fits_any_platform(sdist: Path, tmp_path: Path) -> None:
    made = build(sdist, "wheel", tmp_path, SCALANA_PURE="1")
    assert made.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(made) as archive:
        assert not [name for name in archive.namelist() if name.endswith((".so", ".pyd", ".dylib"))]


def test_a_version_has_its_place_in_all_files() -> None:
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert re.search(r"^## \[Unreleased\]$", (ROOT / "CHANGELOG.md").read_text(), re.M)
