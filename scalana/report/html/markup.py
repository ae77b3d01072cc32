"""Elements of HTML as text. What is not :class:`Markup` is escaped, so that nothing of a run can become markup."""

from __future__ import annotations

from html import escape

VOID = frozenset(("meta", "br", "hr"))
"""Elements that have no end."""


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Content = str | None
"""Text, which is escaped; markup, which is not; None, which is left out."""


def element(tag: str, *content: Content, **attributes: str | None) -> Markup:
    """One element. Attributes that are None are left out; ``class_`` is ``class``, and ``aria_label`` ``aria-label``.

    >>> element("p", "a < b ", element("b", "c"), class_="x", title='"')
    '<p class="x" title="&quot;">a &lt; b <b>c</b></p>'
    """
    named = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(value)}"'
        for name, value in attributes.items()
        if value is not None
    )
    if tag in VOID:
        return Markup(f"<{tag}{named}>")
    return Markup(f"<{tag}{named}>{join(*content)}</{tag}>")


def join(*content: Content) -> Markup:
    """Some content, one after the other.

    >>> join("1 < 2", None, Markup("<br>"))
    '1 &lt; 2<br>'
    """
    return Markup("".join(one if isinstance(one, Markup) else escape(one) for one in content if one is not None))


def prose(text: str) -> Markup:
    """A sentence, in which what stands between backticks is code.

    >>> prose("`a < b` calls c")
    '<code>a &lt; b</code> calls c'
    """
    said, *rest = text.split("`")
    if len(rest) % 2:
        return join(text)
    parts = (element("code", part) if number % 2 == 0 else part for number, part in enumerate(rest))
    return join(said, *parts)


def lines(*content: Content) -> Markup:
    """The same, a line each; empty ones are left out."""
    return Markup("\n".join(join(one) for one in content if one))


def table(head: list[str], rows: list[list[Content]], texts: frozenset[int] = frozenset()) -> Markup:
    """A table that scrolls by itself where it is too wide. Columns are numbers but for those of ``texts``."""

    def kind(column: int) -> str | None:
        return "text" if column in texts else None

    titles = [element("th", title, scope="col", class_=kind(column)) for column, title in enumerate(head)]
    body = [
        element("tr", *(element("td", cell, class_=kind(column)) for column, cell in enumerate(row))) for row in rows
    ]
    whole = element("table", element("thead", element("tr", *titles)), element("tbody", lines(*body)))
    return element("div", whole, class_="wide", tabindex="0", role="region", aria_label=", ".join(filter(None, head)))
