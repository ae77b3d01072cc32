"""Draws the report of a run as a terminal window, in SVG: the picture at the top of the README.

Run: make picture, or python docs/terminal_svg.py RUN_FOLDER PICTURE.svg
"""

from __future__ import annotations

import argparse
import io
import re
import shlex
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

import scalana

WIDTH = 100
ENDS = ("Modules", "Where the time goes")
"""The picture ends before the first of these sections: a reader sees the causes."""
FORMAT = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
"""Without fonts from elsewhere: a picture loads nothing, and any monospaced font will do."""


def shown(report: scalana.Report) -> str:
    """The command and its report, in ANSI colours, up to the first of :data:`ENDS`."""
    command = shlex.join(Path(word).name if n == 0 else word for n, word in enumerate(report.ppg.run.command))
    text = report.to_text(width=WIDTH, color=True)
    heading = rf"\n(?:\x1b\[[0-9;]*m)*(?:{'|'.join(ENDS)}) "
    first = re.sub(r"(\s|\x1b\[[0-9;]*m)+$", "", re.split(heading, text)[0])
    return f"$ \x1b[1mscalana run -- {command}\x1b[0m\n\n{first}\x1b[0m\n"


def svg(text: str) -> str:
    """A terminal window with a text in ANSI colours."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), color_system="truecolor", legacy_windows=False)
    console.print(Text.from_ansi(text))
    drawn = console.export_svg(title="scalana", theme=MONOKAI, code_format=FORMAT, unique_id="scalana")
    return "".join(f"{line.rstrip()}\n" for line in drawn.splitlines())


def main() -> None:
    """Draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("run", help="the run folder")
    parser.add_argument("picture", type=Path, help="the file to write")
    options = parser.parse_args()
    options.picture.write_text(svg(shown(scalana.analyze(options.run))), encoding="utf-8")


if __name__ == "__main__":
    main()
