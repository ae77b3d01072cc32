"""The report for people, in a terminal: what to look at first, on one screen."""

from scalana.report.text.page import MOST_FINDINGS, render

__all__ = ["MOST_FINDINGS", "render"]
