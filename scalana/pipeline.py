"""Say what a pipeline does, where scalana does not know its engine: ``scalana.pipeline.action``.

::

    with scalana.pipeline.action("RECV_F", stage=2, microbatch=5):
        activations = receive()
    with scalana.pipeline.action("F", stage=2, microbatch=5):
        outputs = stage(activations)
"""

from __future__ import annotations

from scalana.runtime.pipeline.spans import action, begin

__all__ = ["action", "begin"]
