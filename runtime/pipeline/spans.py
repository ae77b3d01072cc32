"""The spans that say what a pipeline does, for all engines; :mod:`scalana.graphs.spans.actions` reads them.

=====================  ========  ==================================================================================
name                   type      attributes
=====================  ========  ==================================================================================
``F B I W``            action    stage, microbatch, chunk (the stage's place on its rank), joined: 1 if the next
                                 action of the rank belongs to it
``LOSS``               action    stage, microbatch: the loss, which is computed after F of the last stage
``REDUCE_GRAD``        action    stage
``INFER``              action    none: shapes were found out by a pass on tensors that hold anything
``RUN``                action    one run of a schedule: engine, schedule, stages, microbatches, held (stages of this
                                 rank), ranks (of the pipeline, of the job, in the pipeline's order), pipeline
                                 (number among those of these ranks), number (of the run), trains, infers, layers: 1
                                 if layers were timed, order: what the schedule planned for this rank
``RECV_F RECV_B``      wait      stage, microbatch: what it waited for; sends: what it also waited for
``SEND_F SEND_B``      wait      stage, microbatch: until its own messages were taken
the same               transfer  stage, microbatch: the call that posts them
``LOAD``               data      stage, microbatch: loading of its input, where the engine does that
name of a layer        module    stage, microbatch, action: F, or B, I, W for its part of that backward; on a stream
                                 of a device it is of the type ``device``, with the kind ``module``
=====================  ========  ==================================================================================

A RUN has all the rest within it, on its process. Where there are none, actions belong together by their stages.
"""

from __future__ import annotations

from scalana.runtime.spans import span
from scalana.runtime.typed import Sequence

MESSAGES = ("RECV_F", "RECV_B", "SEND_F", "SEND_B")
LOAD = "LOAD"


def action(
    name: str, stage: int, microbatch: int | None = None, *, chunk: int = 0, pipeline: int | None = None
) -> span:
    """A context manager around what a stage does: for engines that scalana does not know.

    Args:
        name: ``F`` a forward, ``B`` a whole backward, ``I`` and ``W`` the gradients of its input and of its weights;
            ``RECV_F``, ``RECV_B`` a wait for what the stage's forward or backward needs, ``SEND_F``, ``SEND_B`` a wait
            until what they made is taken; ``LOAD`` loading of its input; ``LOSS`` and ``REDUCE_GRAD``.
        stage: number of the stage in the whole pipeline, from 0.
        microbatch: from 0 in every step.
        chunk: the stage's place among those of this rank.
        pipeline: which of several pipelines that work alike (data parallel replicas) this rank belongs to; where it is
            not told, the n-th rank that holds a stage belongs to the n-th pipeline.
    """
    return span(name, kind_of(name), None, stage=stage, microbatch=microbatch, chunk=chunk, pipeline=pipeline)


def begin(name: str, stage: int, microbatch: int | None = None, *, chunk: int = 0, pipeline: int | None = None) -> span:
    """As :func:`action`, begun at once: for where no ``with`` can stand. Its method ``end`` ends it."""
    return span.begin(name, kind_of(name), None, stage=stage, microbatch=microbatch, chunk=chunk, pipeline=pipeline)


def kind_of(name: str) -> str:
    """The type of span by which an action is recorded."""
    return "wait" if name in MESSAGES else "data" if name == LOAD else "action"


def rank_list(ranks: Sequence[int]) -> str:
    """Ranks as the attribute ``ranks`` has them: ``0,2,4``."""
    return ",".join(map(str, ranks))
