"""Documents hold what they promise: links lead somewhere, files are there, tables are complete."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest

from scalana.detectors.kinds import KINDS, SCALING_KINDS
from tests.banned_words import BANNED, LEADING_WHO

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = "detectors|docs|frontend|graphs|runtime|samples|scalana|tests"
MOST_LINES = 150
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "samples").rglob("*.md")])

FOR_DEVELOPERS = ("architecture.md", "proof.md")
USER_PAGES = [
    ROOT / "README.md",
    *sorted({*(ROOT / "docs").glob("*.md")} - {ROOT / "docs" / n for n in FOR_DEVELOPERS}),
]


def of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def prose(path: Path) -> str:
    """A document without its blocks of code."""
    return re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def without_code(path: Path) -> str:
    """A document without code, names of files and targets of links: what is left is words."""
    return re.sub(r"`[^`\n]*`|\]\([^)\s]*\)", "", prose(path))


def anchors(path: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", prose(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", DOCUMENTS, ids=of)
def test_links_lead_somewhere(path: Path) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", prose(path))
    for link in links:
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = unquote(link).partition("#")
        target = (path.parent / name).resolve() if name else path
        assert target.exists(), f"{of(path)}: {link}"
        assert not anchor or anchor in anchors(target), f"{of(path)}: {link}"


@pytest.mark.parametrize("path", USER_PAGES, ids=of)
def test_a_page_answers_one_question(path: Path) -> None:
    """What a user reads is short; what was measured is in the appendix."""
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES


@pytest.mark.parametrize("path", DOCUMENTS, ids=of)
def test_words_are_plain(path: Path) -> None:
    text = without_code(path)
    assert [found[0] for pattern in (BANNED, LEADING_WHO) for found in pattern.finditer(text)] == []


@pytest.mark.parametrize(
    "text",
    ["It was told.", "what mending it brings", "beside them", "most of it.", "| all of it |", "for whom", "Who: it"],
)
def test_words_that_are_banned(text: str) -> None:
    assert BANNED.search(text)


@pytest.mark.parametrize("text", ["most of its time", "the name of items", "a person who waits", "whose part"])
def test_words_that_are_not(text: str) -> None:
    assert not BANNED.search(text) and not LEADING_WHO.search(text)


@pytest.mark.parametrize("path", DOCUMENTS, ids=of)
def test_files_that_are_named_are_there(path: Path) -> None:
    named = re.findall(rf"`((?:{FOLDERS})/[\w./-]*)`", path.read_text(encoding="utf-8"))
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_every_document_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    listed = {(ROOT / "docs" / link).resolve() for link in re.findall(r"\]\(([^)]+)\)", index)}
    assert {path for path in DOCUMENTS if path.name != "README.md"} - listed == set()
    assert {path.resolve() for path in (ROOT / "docs").glob("*.json")} - listed == set()


@pytest.mark.parametrize("heading", ["Ten questions that newcomers ask", "Ten more questions"])
def test_newcomers_get_ten_answers(heading: str) -> None:
    text = (
        (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    )
    rows = re.findall(r"^\| (\d+)\. .*?\? \| (.*) \|$", text, re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(1, 11))
    assert all(re.search(rf"`(?:{FOLDERS})/", answer) for _, answer in rows)


def test_every_kind_of_finding_is_explained() -> None:
    text = (ROOT / "docs" / "report.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| `([\w-]+)` \| (.*) \|$", text.partition("## Kinds of findings")[2].partition("\n## ")[0], re.M
    )
    assert rows == [(kind.name, kind.meaning) for kind in KINDS]


def test_every_kind_of_loss_is_explained() -> None:
    text = (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8")
    section = text.partition("**Kinds of loss**")[2].partition("\n\n**")[0]
    listed = re.findall(r"^\| `([\w-]+)` \|", section, re.M)
    assert set(listed) == {kind.name for kind in SCALING_KINDS}


def test_every_environment_variable_is_explained() -> None:
    """Those that the sources read, and those that the build reads."""
    text = (ROOT / "docs" / "environment.md").read_text(encoding="utf-8")
    sources = [path for folder in ("frontend", "runtime", "scalana") for path in (ROOT / folder).rglob("*.*")]
    read: set[str] = set()
    for path in [*sources, ROOT / "setup.py"]:
        if path.suffix in (".py", ".c", ".h", ".cpp"):
            read |= set(re.findall(r'"(SCALANA_[A-Z_]+)"', path.read_text(encoding="utf-8")))
    assert "SCALANA_CACHE" in read
    missing = {name for name in read if not re.search(rf"\b{name}\b", text)}
    assert missing == set()


def test_the_picture_is_a_report() -> None:
    """The script that draws it works, and what it drew holds what the README says of it."""
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        import terminal_svg
    finally:
        sys.path.remove(str(ROOT / "docs"))
    drawn = terminal_svg.svg("$ \x1b[1mscalana\x1b[0m\n\nplain & <simple>\n")
    picture = (ROOT / "docs" / "report.svg").read_text(encoding="utf-8")
    for made, words in ((drawn, ["plain", "<simple>"]), (picture, ["slow_augmentation.py:41", "denoise", "rank 2"])):
        text = "".join(ElementTree.fromstring(made).itertext()).replace("\xa0", " ")
        assert [word for word in words if word not in text] == []
        assert "url(http" not in made, "a picture loads nothing"
