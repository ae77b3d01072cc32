"""The rows, by topic. A row names the document that claims its figure; what is measured, and how, is here."""

from __future__ import annotations

from ..rows import Row
from . import (
    accuracy,
    arena,
    devices,
    experts,
    faults,
    frameworks,
    hosts,
    installing,
    lengths,
    limits,
    live,
    models,
    overhead,
    parts,
    peers,
    pipelines,
    plans,
    remote,
    rl,
    scaling,
    serving,
    size,
    sources,
    steps,
    tables,
)
from .topic import Topic

TOPICS: tuple[Topic, ...] = (
    accuracy.TOPIC,
    arena.TOPIC,
    frameworks.TOPIC,
    scaling.TOPIC,
    pipelines.TOPIC,
    plans.TOPIC,
    tables.TOPIC,
    rl.TOPIC,
    devices.TOPIC,
    limits.TOPIC,
    models.TOPIC,
    remote.TOPIC,
    steps.TOPIC,
    lengths.TOPIC,
    sources.TOPIC,
    parts.TOPIC,
    serving.TOPIC,
    experts.TOPIC,
    overhead.TOPIC,
    overhead.MPI,
    size.TOPIC,
    live.TOPIC,
    faults.TOPIC,
    hosts.TOPIC,
    installing.TOPIC,
    peers.TOPIC,
)

ROWS: tuple[Row, ...] = tuple(row for topic in TOPICS for row in topic.rows)
