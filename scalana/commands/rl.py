"""``scalana rl``: jobs that train by reinforcement learning."""

from __future__ import annotations

import argparse
import json
import os
import sys

from scalana import console
from scalana.commands import rl_workload
from scalana.commands.arguments import told
from scalana.errors import CommandError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from scalana.detectors.analysis import Analysis

PICTURE = "rl-step.svg"
"""In the run folder."""


class RlCommand:
    """Show where reinforcement learning spends its process time; describe, draw and replay its workloads."""

    example = """\
examples:
  scalana rl report scalana-20250131-142233
  scalana rl report --svg step.svg scalana-20250131-142233
  scalana rl characterize scalana-20250131-142233 --svg lengths.svg
  scalana rl generate scalana-20250131-142233 --steps 10 --prompts 512 --answers 16 -o drawn.jsonl
  scalana rl replay drawn.jsonl --replicas 128 --costs 32b-tp4
"""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        actions = parser.add_subparsers(dest="action", required=True, metavar="report|characterize|generate|replay")
        rl_workload.configure(actions)
        self._report(actions.add_parser("report", help="causes, findings, predictions, and a picture"))

    @staticmethod
    def _report(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("folder", metavar="DIR", help="run folder, made by scalana run")
        parser.add_argument(
            "--format", choices=("text", "json"), default="text", help="format of the report (default: text)"
        )
        parser.add_argument(
            "--svg", metavar="FILE", help=f"picture of the step with the most waiting (default: DIR/{PICTURE})"
        )
        parser.add_argument("-o", "--output", metavar="FILE", help="write to FILE instead of standard output")

    def run(self, args: argparse.Namespace) -> int:
        """Do what was asked for: for a report, analyse the run, print the section and its findings, and draw a step."""
        if args.action != "report":
            args.workload(args)
            return 0
        from scalana import api
        from scalana.detectors.rl.account import RLAccount
        from scalana.detectors.rl.detector import SECTION
        from scalana.report.pictures import rl_svg
        from scalana.report.topics import rl

        with told(args.folder):
            analysis = api.analyze(args.folder).analysis
        account = analysis.sections.get(SECTION)
        if not isinstance(account, RLAccount):
            raise CommandError(
                f"{args.folder}: no reinforcement learning phases were recorded on all ranks; name them with "
                "scalana.rl.phase (docs/rl.md)"
            )
        if args.format == "json":
            text = json.dumps(rl.entry(account), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        else:
            text = _text(analysis, args.output is None)
        console.deliver(text, args.output)
        if account.picture is not None:
            _draw(rl_svg.svg(account.picture, analysis.ppg.run.names), args.svg, args.folder)
        return 0


def _text(analysis: Analysis, printed: bool) -> str:
    """The section and the findings that belong to it."""
    from scalana.detectors.ranking import ranked
    from scalana.detectors.rl.cause_table import CAUSES
    from scalana.report.findings.cause import cause_of
    from scalana.report.text import findings
    from scalana.report.text.page import joined
    from scalana.report.text.paint import Paint
    from scalana.report.text.sections import section_lines
    from scalana.report.topics import rl

    width = console.width(sys.stdout) if printed else 100
    paint = Paint(printed and console.wants_color(sys.stdout))
    kinds = {cause.kind for cause in CAUSES if cause.kind}
    causes = [cause_of(each, analysis.ppg.run) for each in ranked(analysis.findings) if each.kind in kinds]
    blocks = [section_lines(section, width, paint) for section in rl.sections(analysis)]
    return joined([*blocks, *(findings.block(number, cause, width, paint) for number, cause in enumerate(causes, 1))])


def _draw(picture: str, wanted: str | None, folder: str) -> None:
    """Write the picture; only where it was asked for is it an error that this is not possible."""
    path = wanted or os.path.join(folder, PICTURE)
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(picture)
    except OSError as error:
        if wanted:
            raise CommandError(f"{wanted}: {error.strerror or error}") from error
