"""The report as JSON, for programs. Its schema is ``docs/report.schema.json``."""

from __future__ import annotations

import json

from scalana.detectors.analysis import Analysis
from scalana.report.data import document


def render(analysis: Analysis) -> str:
    """The report as indented JSON; the same analysis gives the same bytes."""
    return json.dumps(document(analysis), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
