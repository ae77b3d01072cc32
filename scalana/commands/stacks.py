"""``scalana stacks``: where all ranks of a run are at this moment."""

from __future__ import annotations

import argparse
import sys
import time

from scalana import console
from scalana.commands.arguments import told

_KEPT_S = 5.0


class StacksCommand:
    """Print the stacks of all ranks of a run that is going on, grouped."""

    example = """\
examples:
  scalana stacks scalana-20250131-142233

Ranks in the same place share a stack, and the smallest group comes first. The stacks are those that were recorded last,
up to a second ago. Nothing is sent to the processes, and nothing stops them.
"""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        parser.add_argument("folder", metavar="DIR", help="run folder, made by scalana run")

    def run(self, args: argparse.Namespace) -> int:
        """Read the last seconds of all records, and print where everybody is."""
        from scalana.live.now import moment_of
        from scalana.live.run_tail import RunTail
        from scalana.live.stacks import groups_of, stack_lines
        from scalana.report.text.paint import Paint

        with told(args.folder), RunTail(args.folder, _KEPT_S, keeps_progress=True) as tail:
            tail.update()
            moment = moment_of(tail.write())
            paint, width = Paint(console.wants_color(sys.stdout)), console.width(sys.stdout)
            head = f"{moment.names.count(moment.world_size)} at {time.strftime('%H:%M:%S')}"
            if not moment.going_on:
                head += ", none of which still runs: this is where they were last"
            console.write("\n".join([head, "", *stack_lines(groups_of(moment), width, paint)]), sys.stdout)
        return 0
