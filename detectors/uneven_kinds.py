"""The kinds of findings about work that is divided unevenly, as :mod:`scalana.detectors.kinds` has them."""

from __future__ import annotations

from scalana.detectors.kind import OF_GENERATING, OF_IDLE_THREADS, Claim, Kind

UNEVEN = (
    Kind(
        "uneven-lengths",
        "the sequences of some ranks cost more than those of others, by a cost of their lengths that is fitted from "
        "the run, with what packing them by cost would save",
        "The sequences of some ranks cost more than those of others.",
        (
            Claim(
                "One of {ranks}, a different one in each step, has {times:attention_times} times the attention work of "
                "the median rank, at equal tokens",
                ("is_attention", "in_turn", "equal_tokens"),
            ),
            Claim(
                "One of {ranks}, a different one in each step, has {times:attention_times} times the attention work of "
                "the median rank",
                ("is_attention", "in_turn"),
            ),
            Claim(
                "One of {ranks}, a different one in each step, has {times:token_times} times the tokens of the median "
                "rank",
                ("in_turn",),
            ),
            Claim(
                "{Ranks} {has|have} {times:attention_times} times the attention work of the median rank, at equal "
                "tokens",
                ("is_attention", "equal_tokens"),
            ),
            Claim(
                "{Ranks} {has|have} {times:attention_times} times the attention work of the median rank, and "
                "{times:token_times} times its tokens",
                ("is_attention",),
            ),
            Claim("{Ranks} {has|have} {times:token_times} times the tokens of the median rank", ("token_times",)),
            Claim("The sequences of {ranks} cost more than those of the others"),
        ),
        mended="with sequences packed by cost",
        unmended="Another packing of the same sequences would not shorten the run",
    ),
    Kind(
        "uneven-mask",
        "ranks that divide sequences among them (ring attention, or keys and values gathered on all) compute unequal "
        "parts of attention, as the causal mask leaves more of it to later parts, with what parts in zigzag would save",
        "Ranks that divide sequences compute unequal parts of attention under a causal mask.",
        (
            Claim(
                "{Ranks} {has|have} {ratio:mask_times} times the attention work of the average rank, at equal tokens: "
                "causal mask over contiguous blocks",
                ("mask_times",),
            ),
            Claim("The causal mask leaves more attention work to {ranks} than to the others"),
        ),
        mended="with parts in zigzag",
        unmended="Parts in zigzag would not shorten the run",
    ),
    Kind(
        "uneven-sizes",
        "the parts of the data of some ranks are larger than those of others (a part of a graph with more edges), with "
        "what equal parts would save",
        "The parts of the data of some ranks are larger than those of others.",
        (
            Claim(
                "{Ranks} {handles|handle} {times:size_times} times the {text:size_of} of the median rank",
                ("size_times", "size_of"),
            ),
            Claim("The parts of the data of {ranks} are larger than those of the others"),
        ),
        mended="with equal parts",
        unmended="Equal parts would not shorten the run",
    ),
    Kind(
        "task-tail",
        "a pool of threads waits for its last, long calls, with what another order or smaller calls would save; "
        "`lost_s` is what its threads idle at the end",
        "A pool of threads waits for its last, long calls.",
        (
            Claim(
                "{count:tail_tasks} of {count:tail_of} tasks take {count:tail_percent} % of the time of all; the last, "
                "{text:tail_last}, begins after {seconds:tail_last_begin_s} and runs alone for {seconds:tail_alone_s}",
                ("tail_tasks", "tail_last"),
            ),
            Claim("A pool of threads waits for its last calls"),
        ),
        spends=False,
        unit=OF_IDLE_THREADS,
        mended="with another order, or smaller calls,",
        is_shared=True,
    ),
    Kind(
        "serving-threads",
        "prefill or decode of generated tokens was faster with another number of threads in the same run; `saving_s` "
        "is for the fastest number that was measured",
        "Tokens are generated with a number of threads that is not the fastest.",
        (
            Claim(
                "The {text:serving_phase} takes {seconds:plan_s} {text:plan_unit} with {count:plan_threads} threads, "
                "and {seconds:faster_s} with {count:faster_threads} (medians of {count:plan_requests} and "
                "{count:faster_requests} requests)",
                ("serving_phase", "plan_s", "faster_s"),
            ),
            Claim("Another number of threads is faster"),
        ),
        spends=False,
        unit=OF_GENERATING,
        mended="with the faster number",
        is_shared=True,
    ),
    Kind(
        "serving-weights",
        "prefill or decode of generated tokens was faster with the weights on the NUMA node of the threads in the same "
        "run",
        "Weights lie on another NUMA node than the threads that read them.",
        (
            Claim(
                "The {text:far_phase} of {ranks} takes {seconds:far_s} {text:far_unit} with {count:far_percent} % of "
                "the weights on another NUMA node than its threads, and {seconds:near_s} with {count:near_percent} % "
                "(medians of {count:far_requests} and {count:near_requests} requests)",
                ("far_phase", "far_s", "near_s"),
            ),
            Claim("Weights lie on another NUMA node than the threads that read them"),
        ),
        spends=False,
        unit=OF_GENERATING,
        mended="with the weights on the node of the threads",
        is_shared=True,
    ),
)
