"""``scalana watch``: what a run is doing while it goes on."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys

from scalana import console
from scalana.commands.arguments import told, whole, within
from scalana.commands.following import NEVER, add_following


class WatchCommand:
    """Watch a run that is still going on."""

    example = """\
examples:
  scalana watch scalana-20250131-142233
  scalana watch --once scalana-20250131-142233
  scalana watch --json scalana-20250131-142233
  scalana watch --log --verdict-after 20 scalana-20250131-142233

Keys: q ends it, space pauses, s shows more or fewer steps, r shows each rank or groups of them, j and k move through
the ranks.
"""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        parser.add_argument("folder", metavar="DIR", help="run folder, made by scalana run")
        parser.add_argument("--once", action="store_true", help="print one picture, and end")
        parser.add_argument("--json", action="store_true", help="print one picture as JSON, and end")
        parser.add_argument(
            "--log", action="store_true", help="print lines about hangs and verdicts, until the run ends"
        )
        parser.add_argument(
            "--every",
            metavar="SECONDS",
            type=within(0.2, 3600, "seconds"),
            default=2.0,
            help="seconds between two looks (default: 2)",
        )
        parser.add_argument(
            "--last",
            metavar="N",
            type=whole(1),
            default=20,
            help="how many of the last steps are analysed (default: 20)",
        )
        add_following(parser)

    def run(self, args: argparse.Namespace) -> int:
        """Look at the run, once or until it ends."""
        if args.log:
            with told(args.folder):
                return _follow(args)
        from scalana.live.draw import Shown, lines
        from scalana.live.look import Looker
        from scalana.live.view import document
        from scalana.report.text.paint import Paint

        with told(args.folder), Looker(args.folder, args.last) as looker:
            if args.json:
                console.write(json.dumps(document(looker.look()), indent=1) + "\n", sys.stdout)
            elif args.once or not console.is_terminal(sys.stdout):
                paint, width = Paint(console.wants_color(sys.stdout)), console.width(sys.stdout)
                console.write("\n".join(lines(looker.look(), width, 0, paint, Shown())) + "\n", sys.stdout)
            else:
                from scalana.live.terminal import follow

                follow(looker, args.every)
        return 0


def _follow(args: argparse.Namespace) -> int:
    """Print what there is to say of the run, until it ends or whoever started this does."""
    from scalana.live.follow import Follower, Orders

    orders = Orders(
        verdict_after=args.verdict_after,
        hangs=args.hang_after != NEVER,
        hang_after_s=args.hang_after if isinstance(args.hang_after, float) else None,
        aborts=args.on_hang == "abort",
    )
    parent = os.getppid()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that nothing stays behind
    follower = Follower(args.folder, orders, lambda text: console.complain(text.replace("\n", "\n  ")))
    return follower.run(lambda: os.getppid() != parent)
