"""The report as JSON, for programs. Its schema is ``docs/report.schema.json``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from scalana.report.data import document

if TYPE_CHECKING:
    from scalana.detectors.analysis import Analysis


def render(analysis: Analysis) -> str:
    """The report as indented JSON; the same analysis gives the same bytes."""
    return json.dumps(document(analysis), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
