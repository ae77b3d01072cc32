"""Makes of the complete wheel, as ``pip wheel .`` builds it, the wheels that are published.

``python split_wheel.py WHEEL FOLDER`` writes ``scalana`` (the recorder and the command, for the environment of a job)
into a folder, and with ``--report`` also ``scalana-report`` (the sources of the analysis, for any platform, with the
packages that they need). Both install into one package; ``scalana[report]`` brings the other.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import re
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

ANALYSIS = (
    "attach",
    "calibration",
    "detectors",
    "export",
    "frontend",
    "graphs",
    "importers",
    "live",
    "report",
    "verify",
    "workload",
)
"""The rooms of the package that need the packages of the extra ``report``: no job loads any of them."""
OF_EXTRA = re.compile(r'(?:; | and )extra == "report"$')
"""The end of a line that asks for a package of the extra."""
ABOUT = "The analysis of scalana: pip install 'scalana[report]', or scalana setup-report\n"
PURE = "Wheel-Version: 1.0\nGenerator: scalana (split_wheel.py)\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


@dataclass(frozen=True)
class Wheel:
    """What is in a wheel, but for the list of it."""

    name: str
    """Of the distribution, as in file names."""
    version: str
    tag: str
    files: Mapping[str, bytes]
    """By their path; those of the distribution lie in the folder ``info``."""

    @property
    def info(self) -> str:
        """The folder that describes the distribution."""
        return f"{self.name}-{self.version}.dist-info"


def read(path: Path) -> Wheel:
    """Read a wheel."""
    name, version, *tag = path.name.removesuffix(".whl").split("-")
    with zipfile.ZipFile(path) as archive:
        files = {one: archive.read(one) for one in archive.namelist() if not one.endswith(("/", "/RECORD"))}
    return Wheel(name, version, "-".join(tag), files)


def write(wheel: Wheel, folder: Path) -> Path:
    """Write a wheel, with the list of its files."""
    path = folder / f"{wheel.name}-{wheel.version}-{wheel.tag}.whl"
    listed = "".join(f"{name},{_digest(data)},{len(data)}\n" for name, data in wheel.files.items())
    record = f"{wheel.info}/RECORD"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in {**wheel.files, record: f"{listed}{record},,\n".encode()}.items():
            entry = zipfile.ZipInfo(name)  # of one time: the same sources give the same wheel
            entry.external_attr = 0o100644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    return path


def _digest(data: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def of_recorder(whole: Wheel) -> Wheel:
    """What the environment of a job installs."""
    head, _, text = whole.files[f"{whole.info}/METADATA"].decode().partition("\n\n")
    needed = f'Requires-Dist: scalana-report=={whole.version}; extra == "report"'
    lines = [line for line in head.splitlines() if not OF_EXTRA.search(line)]
    lines.insert(lines.index("Provides-Extra: report") + 1, needed)
    files = {name: data for name, data in whole.files.items() if not _is_analysis(name)}
    return Wheel(
        whole.name,
        whole.version,
        whole.tag,
        {**files, f"{whole.info}/METADATA": f"{_joined(lines)}\n{text}".encode()},
    )


def of_report(whole: Wheel) -> Wheel:
    """What an environment needs that analyses."""
    name, info = "scalana_report", f"scalana_report-{whole.version}.dist-info"
    head = whole.files[f"{whole.info}/METADATA"].decode().partition("\n\n")[0].splitlines()
    kept = ("Metadata-Version", "Version", "License", "Requires-Python")
    needed = [OF_EXTRA.sub("", line) for line in head if OF_EXTRA.search(line)]
    lines = ["Name: scalana-report", f"Summary: {ABOUT.strip()}", *(line for line in head if line.startswith(kept))]
    lines = sorted(lines, key=lambda line: not line.startswith("Metadata-Version"))
    licence = next(file for file in whole.files if file.endswith("/LICENSE"))
    return Wheel(
        name,
        whole.version,
        "py3-none-any",
        {
            **{file: data for file, data in whole.files.items() if _is_analysis(file)},
            f"{info}/METADATA": f"{_joined([*lines, *needed])}\n{ABOUT}".encode(),
            f"{info}/WHEEL": PURE.encode(),
            f"{info}/licenses/LICENSE": whole.files[licence],
        },
    )


def _joined(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _is_analysis(name: str) -> bool:
    return name.startswith(tuple(f"scalana/{room}/" for room in ANALYSIS))


def main() -> None:
    """Split the wheel that is named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--report", action="store_true", help="write scalana-report, too")
    args = parser.parse_args()
    whole = read(args.wheel)
    args.folder.mkdir(parents=True, exist_ok=True)
    for made in [of_recorder(whole), *([of_report(whole)] if args.report else [])]:
        print(write(made, args.folder))


if __name__ == "__main__":
    main()
