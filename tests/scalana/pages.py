"""Pages as a browser would see them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html.parser import HTMLParser

from scalana.report.document.sections import Section
from scalana.report.html import markup
from scalana.report.html.sections import sections_markup

LARGEST = 2_000_000
"""Characters that a page may have."""


class Page(HTMLParser):
    """Text, elements and attributes, and whether all of it is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.faults: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in markup.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}> at {self.getpos()}")

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        """All words, with single spaces."""
        return re.sub(r"\s+", " ", " ".join(self.words))

    def widths(self) -> list[float]:
        """Of the parts of bars, in per cent."""
        return [
            float(re.sub(r"width:|%", "", attributes["style"] or ""))
            for _, attributes in self.elements
            if (attributes.get("class") or "").startswith("part ")
        ]


def well_formed(text: str) -> Page:
    """The page of a text, or a part of one, after what holds for every one was checked."""
    seen = Page(text)
    assert (seen.open, seen.faults) == ([], [])
    assert len(text) < LARGEST
    tags = [tag for tag, _ in seen.elements]
    assert not {"script", "link", "img", "iframe", "object", "embed", "form"} & set(tags)
    for _, attributes in seen.elements:
        assert not {"src", "href", "srcset", "action"} & set(attributes)
        assert not [name for name in attributes if name.startswith("on")]
    outside = re.findall(r"(?:https?:)?//[\w.]+", text.replace("http://www.w3.org/2000/svg", ""))
    assert outside == []
    assert set(re.findall(r"url\((.)", text)) <= {"#"}
    ids = [attributes["id"] for _, attributes in seen.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    return seen


def drawn(sections: Sequence[Section]) -> Page:
    """The part of a page that shows some sections."""
    return well_formed("\n".join(sections_markup(sections)))
