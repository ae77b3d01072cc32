"""The options that say what to look for in a run that goes on, the same for each command that does."""

from __future__ import annotations

import argparse

from scalana.commands.arguments import whole, within

NEVER = "never"


def add_following(parser: argparse.ArgumentParser) -> None:
    """Declare them."""
    parser.add_argument(
        "--verdict-after",
        metavar="N",
        type=whole(1),
        help="print a line about the first N steps, and one each time that the cause or the step time changes",
    )
    parser.add_argument(
        "--hang-after",
        metavar="SECONDS",
        type=hang_seconds,
        help="report a hang when no rank has come further for so long, or never (default: 10 times the longest pause "
        "so far, 60 s at least; 300 s at least at the start)",
    )
    parser.add_argument(
        "--on-hang",
        choices=("report", "abort"),
        default="report",
        help="what to do about a hang: report it, or also end the job (default: report)",
    )


def following_words(args: argparse.Namespace) -> list[str]:
    """The same options, as words of a command line."""
    words = [] if args.verdict_after is None else ["--verdict-after", str(args.verdict_after)]
    words += [] if args.hang_after is None else ["--hang-after", str(args.hang_after)]
    return [*words, "--on-hang", args.on_hang]


def hang_seconds(text: str) -> float | str:
    """Seconds, or "never".

    Raises:
        argparse.ArgumentTypeError: it is neither.

    >>> hang_seconds("90"), hang_seconds("never")
    (90.0, 'never')
    """
    return NEVER if text == NEVER else within(5, 86400, f"seconds, nor {NEVER!r}")(text)
