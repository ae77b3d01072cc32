"""Requests of loops that generate tokens: time to the first token and for each more, by number of threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from scalana.detectors.analysis import Analysis
from scalana.detectors.serving.thread_plans import SERVING, Serving
from scalana.graphs.spans.requests import DECODE, PREFILL
from scalana.report import names
from scalana.report.document.sections import Column, Facts, Row, Section, Table, section, texts
from scalana.report.values import plain

_COLUMNS = (
    Column("phase", 8, is_text=True),
    Column("threads", 7),
    Column("cores busy", 10),
    Column("requests", 8),
    Column("median", 8),
    Column("95 %", 8),
)
_UNITS = {PREFILL: "to the first token", DECODE: "a token"}


def sections(analysis: Analysis) -> Sequence[Section]:
    """What requests take, in a sentence, and a row for each phase and number of threads."""
    serving = analysis.section(SERVING)
    if serving is None:
        return []
    rows = [
        Row(
            (
                one.phase,
                str(one.threads),
                f"{one.cores:.2f}",
                str(one.requests),
                names.seconds(one.median_s),
                names.seconds(one.slow_s),
            )
        )
        for one in serving.phases
    ]
    notes = texts(_uncached(serving), _crowded(serving), _shared(serving))
    parts = (Facts((_summary(serving),)), Table(_COLUMNS, tuple(rows), notes))
    count = len(serving.requests)
    return [section("serving", "Serving", "1 request" if count == 1 else f"{count} requests", *parts)]


def _summary(serving: Serving) -> str:
    """Both phases of all requests."""
    requests = serving.requests
    first, more, slow = requests.prefill.seconds, requests.token_s, requests.slow_token_s
    made = int((requests.decode.tokens * requests.batch).sum())
    whole_s = float(requests.prefill.seconds.sum() + requests.decode.seconds.sum())
    return (
        f"Prefill {names.seconds(float(np.median(first)))} {_UNITS[PREFILL]} "
        f"(95 %: {names.seconds(float(np.quantile(first, 0.95)))}) for {requests.prefill.tokens.mean():.0f} tokens; "
        f"decode {names.seconds(float(np.median(more)))} {_UNITS[DECODE]} "
        f"(95 %: {names.seconds(float(np.quantile(slow, 0.95)))}). {made / max(whole_s, 1e-300):.3g} tokens a second "
        f"of a process that serves."
    )


def _uncached(serving: Serving) -> str:
    if not serving.uncached:
        return ""
    return (
        f"For {serving.uncached} of these requests the model computes all tokens again for each one: keep keys and "
        "values of earlier tokens (a KV cache)."
    )


def _crowded(serving: Serving) -> str:
    """That there are more threads than cores."""
    if not serving.cores or serving.threads <= serving.cores:
        return ""
    processes = "1 process" if serving.processes == 1 else f"{serving.processes} processes"
    cores = "1 core" if serving.cores == 1 else f"{serving.cores} cores"
    return (
        f"{processes} with {serving.threads} threads of torch share {cores}: threads wait for cores, and then for each "
        "other. Divide the cores among the processes (torch.set_num_threads, OMP_NUM_THREADS)."
    )


def _shared(serving: Serving) -> str:
    """That both phases have one number of threads, of which other numbers were not tried."""
    threads = serving.shared_threads
    if threads < 2:
        return ""
    (first,), (more,) = (serving.of(phase) for phase in (PREFILL, DECODE))
    return (
        f"Both phases share {threads} threads: the prefill keeps {first.cores:.2f} cores busy, the decode "
        f"{more.cores:.2f}. To see whether a phase is faster with another number, set others in turn for some requests "
        "(torch.set_num_threads)."
    )


def entries(analysis: Analysis) -> dict[str, Any]:
    """The same for the JSON report."""
    serving = analysis.section(SERVING)
    if serving is None:
        return {}
    phases = [
        {
            "phase": one.phase,
            "threads": one.threads,
            "requests": one.requests,
            "median_s": plain(one.median_s),
            "p95_s": plain(one.slow_s),
            "cores_busy": plain(one.cores),
            "tokens": plain(one.tokens),
        }
        for one in serving.phases
    ]
    count = {"requests": len(serving.requests), "uncached_requests": serving.uncached}
    return {"serving": {**count, "processes": serving.processes, "threads": serving.threads, "phases": phases}}
