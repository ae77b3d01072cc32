"""The rows, by topic. A row names the document that claims its figure; what is measured, and how, is here."""

from __future__ import annotations

from ..rows import Row
from . import accuracy, pipelines, rl
from .topic import Topic

TOPICS: tuple[Topic, ...] = (
    accuracy.TOPIC,
    pipelines.TOPIC,
    rl.TOPIC,
)

ROWS: tuple[Row, ...] = tuple(row for topic in TOPICS for row in topic.rows)
