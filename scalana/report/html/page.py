"""The whole page: the verdict first, then what it rests on. A pure function from an analysis to a string."""

from __future__ import annotations

from collections.abc import Sequence

from scalana.detectors.analysis import Analysis
from scalana.report.contents import contents_of
from scalana.report.document.contents import Contents
from scalana.report.html import findings
from scalana.report.html.markup import Markup, element, lines, prose
from scalana.report.html.sections import sections_markup
from scalana.version import __version__

MOST_FINDINGS = 40
"""That are shown; the others stand in the JSON report."""


def render(analysis: Analysis) -> str:
    """The report as one file of HTML: no script, and nothing is loaded. The same analysis gives the same bytes."""
    return draw(contents_of(analysis, MOST_FINDINGS, details=True))


def draw(contents: Contents) -> str:
    """What a report says, as a page."""
    causes = contents.causes
    quiet = findings.quiet("No finding", *contents.nothing) if contents.nothing[1] else None
    helps = findings.quiet("Known change", *contents.headline) if contents.headline[1] else None
    body = lines(
        helps,
        findings.verdict(causes[0]) if causes else quiet,
        _warnings(contents.warnings),
        element("h2", "Other root causes", id="findings") if len(causes) > 1 else None,
        findings.others(causes, contents.rest),
        *sections_markup(contents.sections),
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", f"scalana: {contents.command}"),
        element("style", Markup(STYLE)),
    )
    top = element(
        "header",
        element("h1", "scalana"),
        element("code", contents.command, class_="command"),
        *(element("div", line, class_="soft") for line in contents.head),
        class_="top",
    )
    foot = element("footer", f"scalana {__version__}. The same numbers, for programs: scalana report --format json.")
    page = element("html", head, element("body", top, element("main", body), foot), lang="en")
    return f"<!DOCTYPE html>\n{page}\n"


def _warnings(messages: Sequence[str]) -> Markup | None:
    if not messages:
        return None
    word = "One warning" if len(messages) == 1 else f"{len(messages)} warnings"
    items = element("ul", *(element("li", prose(message)) for message in messages))
    return element("section", element("details", element("summary", word), items, open=""), class_="warnings")


STYLE = """
:root{color-scheme:light dark;--bg:#f6f7f9;--card:#fff;--ink:#1b2130;--soft:#5a6376;--line:#dfe3ea;--accent:#b3261e;
--good:#1d7a46;--link:#1e5bb8;--code:#f3f4f7;--mark:#fdeceb;
--green:#3f9a63;--amber:#d89a1e;--red:#cf4a3f;--blue:#4a7fc9;--gray:#a9b0bd;--teal:#2f9c9c;--violet:#8a67c4;
--brown:#9a7350;--pink:#d0699f;--olive:#8c9a3c;--navy:#4f5d8f;--lime:#8fc250;--rust:#b5622f;--plum:#8c4f86}
@media (prefers-color-scheme:dark){:root{--bg:#12151c;--card:#1b2029;--ink:#e6e9f0;--soft:#9aa4b5;--line:#323947;
--accent:#ff8a80;--good:#6fd39a;--link:#8ab8ff;--code:#141820;--mark:#3a2226;--gray:#646d7d}
.picture svg{filter:invert(.9) hue-rotate(180deg)}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,
"DejaVu Sans",sans-serif}
main,header.top,footer{max-width:1180px;margin:0 auto;padding:0 20px}
header.top{padding-top:24px}
footer{padding-bottom:32px;color:var(--soft);font-size:13px}
h1{font-size:15px;margin:0;letter-spacing:.04em;color:var(--soft);font-weight:600}
h2{font-size:18px;margin:0 0 10px}
h3{font-size:15px;margin:18px 0 6px}
p{margin:6px 0}
code,pre,.mono{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:13px}
.command{display:block;margin:4px 0 6px;font-size:15px;font-weight:600;overflow-wrap:anywhere}
.soft{color:var(--soft)}
section,details.finding,.verdict{background:var(--card);border:1px solid var(--line);border-radius:10px;
padding:18px 20px;margin:16px 0}
.verdict{border-left:6px solid var(--accent)}
.verdict.good{border-left-color:var(--good)}
.verdict .kicker{font-size:13px;font-weight:600;letter-spacing:.05em;text-transform:uppercase;color:var(--accent)}
.verdict.good .kicker{color:var(--good)}
.verdict .place{font-size:24px;line-height:1.25;font-weight:700;margin:2px 0 8px;overflow-wrap:anywhere}
.verdict .place .fn{font-weight:500;color:var(--soft)}
.verdict .claim{font-size:17px}
.figures{display:flex;flex-wrap:wrap;gap:10px 36px;margin:14px 0 4px;padding:0;list-style:none}
.figures b{display:block;font-size:24px;line-height:1.2;font-weight:700}
.figures span{color:var(--soft);font-size:13px}
.source{margin:12px 0 0;background:var(--code);border:1px solid var(--line);border-radius:8px;overflow-x:auto;
padding:8px 0;line-height:1.55}
.source span{display:block;white-space:pre;padding:0 14px;color:var(--soft);min-width:max-content}
.source .here{background:var(--mark);color:var(--ink);font-weight:600}
.advice{border-left:3px solid var(--good);padding:2px 0 2px 12px;margin:12px 0 0}
details.finding>summary{display:grid;grid-template-columns:16px 1fr max-content;cursor:pointer;list-style:none}
details.finding>summary::-webkit-details-marker{display:none}
details.finding>summary::before{content:"\\25B8";color:var(--soft)}
details.finding[open]>summary::before{content:"\\25BE"}
details.finding>summary .name{font-weight:700;overflow-wrap:anywhere}
details.finding>summary .said{display:block}
details.finding>summary .right{padding-left:14px;color:var(--accent);font-weight:600}
summary{cursor:pointer}
summary:focus-visible,[tabindex]:focus-visible{outline:3px solid var(--link);outline-offset:2px;border-radius:4px}
details.more{margin-top:12px}
details.more>summary{color:var(--link)}
.chain{list-style:none;margin:6px 0 0;padding:0;display:flex;flex-wrap:wrap;gap:8px 0;align-items:stretch}
.chain li{display:flex;align-items:center;max-width:100%}
.chain li+li::before{content:"\\2192";padding:0 10px;color:var(--soft);font-size:20px}
.chain .hop{border:1px solid var(--line);border-radius:8px;padding:7px 12px;background:var(--code);
overflow-wrap:anywhere}
.chain .hop b{display:block}
.chain .root .hop{border:2px solid var(--accent)}
.bar{display:flex;height:22px;width:100%;border-radius:4px;overflow:hidden;background:var(--code)}
.part{display:block;height:100%;flex:none}
.key{display:inline-block;width:14px;height:14px;border-radius:3px;margin-right:7px;vertical-align:-2px}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:4px 22px;padding:0;margin:8px 0 0}
.green{background:var(--green)}
.amber{background:repeating-linear-gradient(45deg,var(--amber) 0 5px,#b97c0d 5px 7px)}
.red{background:repeating-linear-gradient(-45deg,var(--red) 0 4px,#a5342b 4px 6px)}
.blue{background:repeating-linear-gradient(90deg,var(--blue) 0 5px,#3563a5 5px 6px)}
.gray{background:repeating-linear-gradient(0deg,var(--gray) 0 5px,#8a92a1 5px 6px)}
.teal{background:var(--teal)}
.violet{background:repeating-linear-gradient(45deg,var(--violet) 0 6px,#6f4fa8 6px 9px)}
.brown{background:repeating-linear-gradient(90deg,var(--brown) 0 3px,#7d5b3d 3px 5px)}
.pink{background:repeating-linear-gradient(-45deg,var(--pink) 0 6px,#b14d82 6px 9px)}
.olive{background:repeating-linear-gradient(0deg,var(--olive) 0 3px,#707d2c 3px 5px)}
.ranks{display:grid;grid-template-columns:max-content 1fr max-content;gap:4px 12px;align-items:center;margin-top:12px}
.ranks .rank{display:contents}
.ranks .bar{height:16px}
.ranks .late{font-weight:700;color:var(--accent)}
.ranks .num{font-variant-numeric:tabular-nums;text-align:right;color:var(--soft);font-size:13px}
.wide{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:14px}
th,td{padding:4px 10px;text-align:right;border-bottom:1px solid var(--line);font-variant-numeric:tabular-nums;
white-space:nowrap}
th{color:var(--soft);font-weight:600}
.text{text-align:left}
td.text{white-space:normal}td code{white-space:nowrap}
.picture{overflow-x:auto;margin-top:12px}
.picture svg{min-width:720px;width:100%;height:auto;border-radius:8px}
.columns{overflow-x:auto}
.columns svg{width:100%;height:auto;min-width:620px}
.columns .step{fill:var(--blue)}.columns .first{fill:var(--gray)}.columns .slow{fill:var(--red)}
.columns text{fill:var(--soft);font-size:11px}.columns line{stroke:var(--line)}
.columns .back{fill:var(--code)}.columns .heat{fill:var(--red)}.columns .heat+text{fill:var(--ink)}
.unseen{position:absolute}.hatch{fill:#fff;fill-opacity:.4}
.on-red{fill:var(--red)}.on-violet{fill:var(--violet)}.on-brown{fill:var(--brown)}.on-pink{fill:var(--pink)}
.on-olive{fill:var(--olive)}.on-gray{fill:var(--gray)}
.over-green{fill:var(--green)}.over-blue{fill:var(--blue)}.over-red{fill:url(#over-red)}
.over-violet{fill:url(#over-violet)}.over-brown{fill:url(#over-brown)}.over-pink{fill:url(#over-pink)}
.over-olive{fill:url(#over-olive)}.over-gray{fill:url(#over-gray)}
pre.plain{overflow-x:auto;background:var(--code);border:1px solid var(--line);border-radius:8px;padding:10px 14px;
margin:8px 0 0}
.warnings{border-left:6px solid var(--amber);padding-top:10px;padding-bottom:10px}
.warnings ul{margin:6px 0 0;padding-left:22px}
dl{display:grid;grid-template-columns:max-content 1fr;gap:4px 18px;margin:8px 0 0}
dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}
.navy{background:var(--navy)}
.lime{background:repeating-linear-gradient(90deg,var(--lime) 0 7px,#6f9e38 7px 9px)}
.rust{background:repeating-linear-gradient(45deg,var(--rust) 0 3px,#8d4a21 3px 5px)}
.plum{background:repeating-linear-gradient(0deg,var(--plum) 0 6px,#6e3a69 6px 8px)}
@media (max-width:560px){main,header.top,footer{padding-left:10px;padding-right:10px}
section,details.finding,.verdict{padding:14px 12px}.verdict .place{font-size:19px}.figures{gap:10px 24px}
.chain{display:block}.chain li{display:block}.chain li+li::before{content:"\\2193";display:block;padding:0 0 0 14px}
details.finding>summary{grid-template-columns:16px 1fr}details.finding>summary .right{grid-column:2;padding:0}
.ranks{display:block}.ranks .rank{display:grid;grid-template-columns:1fr max-content;margin-bottom:7px}
.ranks .bar{grid-row:2;grid-column:1/3}dl{grid-template-columns:1fr}dt{margin-top:6px}}
@media print{body{background:#fff;font-size:11pt}section,details.finding,.verdict{break-inside:avoid;margin:8px 0}
.part,.key,.source .here{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
"""
