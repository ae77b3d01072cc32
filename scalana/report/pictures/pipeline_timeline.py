"""The usual step of a pipeline as a picture."""

from __future__ import annotations

from scalana.detectors.pipeline.detector import Pipeline
from scalana.graphs.readers.processes.process_names import ProcessNames
from scalana.report import names
from scalana.report.findings.claims import UNNAMED
from scalana.report.pictures.pipeline_svg import Box, Picture, Wait

_SHOWN = 0.0005
"""Of a step: shares below are not in the headline."""


def picture_of(pipeline: Pipeline, more: int = 0, processes: ProcessNames = UNNAMED) -> Picture:
    """The step of median length. ``more`` is how many pipelines there are besides."""
    from scalana.detectors.pipeline.measured.step_waits import LINK, usual_step, waits_of_step
    from scalana.detectors.pipeline.model.actions import Kind

    recorded, diagnosis = pipeline.recorded, pipeline.diagnosis
    measured, found = diagnosis.measured, diagnosis.attribution
    program, row = measured.program, usual_step(measured)
    step = waits_of_step(measured, row)
    offset = int(measured.microbatches[:row].sum())
    boxes, waits = [], []
    for k, action in enumerate(step.actions.tolist()):
        rank, begin = int(program.rank[action]), float(step.begin_s[k])
        kind, stage = Kind(int(program.kind[action])).name, int(program.stage[action])
        boxes.append(Box(rank, kind, stage, int(program.microbatch[action]) - offset, begin, float(step.end_s[k])))
        if step.wait_s[k] > 0:
            root = int(step.root[k])
            why = f"stage {root}" if root >= 0 else "link" if root == LINK else ""
            waits.append(Wait(rank, begin - float(step.wait_s[k]), begin, why))
    shares = [f"{name} {names.percent(share)}" for name, share in found.shares.items() if abs(share) >= _SHOWN]
    title = f"{recorded.engine} {diagnosis.schedule or recorded.schedule}, a step of {names.seconds(found.step_s)}"
    title += f" (one of {more + 1} pipelines)" if more else ""
    return Picture(
        title=title,
        subtitle=" · ".join(shares),
        rows=tuple(processes.one(rank) for rank in recorded.ranks),
        boxes=tuple(boxes),
        waits=tuple(waits),
        several=program.stages > program.ranks,
    )
