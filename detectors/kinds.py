"""The kinds of findings: one row each, read by every report, by the advice, and by the documents.

A claim is a text with fields in braces. ``{Ranks}`` and ``{ranks}`` are the ranks of the finding, ``{one|many}`` a
word that agrees with their number, ``{seconds:KEY}``, ``{count:KEY}``, ``{rate:KEY}``, ``{times:KEY}``, ``{text:KEY}``
and ``{ranks:KEY}`` a value of the evidence. Of the claims of a kind the first is made whose keys the evidence has.
"""

from __future__ import annotations

from scalana.detectors.kind import OF_IDLING, OF_LONGER_WORK, OF_LOSS, Claim, Kind
from scalana.detectors.shared_kinds import SHARED
from scalana.detectors.uneven_kinds import UNEVEN

KINDS = (
    Kind(
        "late-ranks",
        "ranks take longer at a place than the others, which wait for them",
        "Some ranks take longer here than the others, which wait for them.",
        (Claim("{Ranks} {is|are} late here"),),
        compares=True,
    ),
    Kind(
        "serial",
        "work that one rank does alone while all others wait",
        "Work on few ranks that all others wait for.",
        (Claim("{Ranks} {works|work} here while the others wait"),),
        compares=True,
    ),
    *SHARED,
    Kind(
        "slow-worker",
        "a rank of a task pool takes longer per task than the others; `lost_s` is that extra time",
        "Some ranks take longer per task than the others, and do fewer tasks.",
        (
            Claim(
                "{Ranks} {takes|take} {seconds:task_s_here} per task, the others {seconds:task_s_others}: "
                "{it does|they do} {count:tasks_here} tasks, each other rank {count:tasks_others}",
                ("task_s_here", "task_s_others", "tasks_here", "tasks_others"),
            ),
            Claim("{Ranks} {takes|take} longer per task than the others"),
        ),
        advice="Check what this rank does per task that others do not, and check its core.",
        arrival="is slow",
        unit=OF_LONGER_WORK,
    ),
    Kind(
        "in-rounds",
        "all ranks do the same one after the other, each while others wait, with what doing it at the same time saves",
        "Ranks do the same work one after the other.",
        (Claim("{Ranks} {does|do} this one after the other"),),
        compares=True,
        advice="Let all ranks do this at the same time, or one rank do it for all: in rounds, each rank waits for the "
        "others.",
        mended="done at the same time, or once,",
    ),
    *UNEVEN,
    Kind(
        "slow-rank",
        "a rank takes longer than others for everything, by one factor (its core or its host is slow), or in many "
        "places of which none stands out; perhaps from a step on",
        "Some ranks take longer than others nearly everywhere.",
        (
            Claim(
                "{Ranks} {takes|take} {times:slow_times} times as long as the others for everything, from step "
                "{count:slow_since} on",
                ("slow_everywhere", "slow_since"),
            ),
            Claim(
                "{Ranks} {takes|take} {times:slow_times} times as long as the others for everything",
                ("slow_everywhere",),
            ),
            Claim(
                "{Ranks} {takes|take} {times:slow_times} times as long as the others, in {count:slow_places} places of "
                "which none stands out, from step {count:slow_since} on",
                ("slow_times", "slow_since"),
            ),
            Claim(
                "{Ranks} {takes|take} {times:slow_times} times as long as the others, in {count:slow_places} places of "
                "which none stands out",
                ("slow_times",),
            ),
            Claim("{Ranks} {takes|take} longer than the others"),
        ),
        advice="All work of these ranks takes longer alike. Look at their cores and their host first (clock rate, "
        "temperature, memory, what else runs there), then at whether they get larger inputs.",
        mended="as fast as the others",
    ),
    Kind(
        "waiting-for-core",
        "ranks are ready to run, but wait for a core (oversubscribed cores, or another program on them; perhaps from a "
        "step on)",
        "Ranks are ready to run, but wait for a core.",
        (
            Claim(
                "{Ranks} {waits|wait} for a core from step {count:slow_since} on, and {takes|take} {times:slow_times} "
                "times as long as the others",
                ("slow_times", "slow_since"),
            ),
            Claim(
                "{Ranks} {waits|wait} for a core, and {takes|take} {times:slow_times} times as long as the others",
                ("slow_times",),
            ),
            Claim("{Ranks} {is|are} ready to run here, but {waits|wait} for a core"),
        ),
        advice="Ranks wait here for a CPU core: give each rank its own core, or use fewer threads.",
    ),
    Kind(
        "helper-takes-core",
        "a background thread or child process of a rank takes its core",
        "A background thread or child process of a rank takes its core.",
        (Claim("A background thread or child process of {ranks} computes here and takes {its|their} core"),),
        advice="Make this cheaper, or give it its own core: the rank cannot compute meanwhile.",
    ),
    Kind(
        "garbage-collection",
        "Python's garbage collector runs on ranks at different times, or longer on some, and the others wait",
        "Python's garbage collector delays ranks that others wait for.",
        (
            Claim(
                "Python's garbage collector runs on {ranks} {count:collections} times, {seconds:collection_s} in all"
                "{| on each, at different times}: the other ranks wait each time",
                ("collections", "collection_s"),
            ),
            Claim("Python's garbage collector delays {ranks}, and the others wait"),
        ),
        spends=False,
        advice="Call gc.freeze() after the set-up, so that the collector skips all objects that exist by then. Or call "
        "gc.disable() once and gc.collect() every N steps, in the same steps on all ranks. Fewer objects in reference "
        "cycles make each collection shorter.",
        arrival="collects garbage",
        mended="if no rank collected while others wait,",
    ),
    Kind(
        "slow-transfer",
        "messages of a rank arrive late although no rank works",
        "Messages arrive late although no rank works.",
        (Claim("Messages of {ranks} arrive late although no rank works"),),
        advice="The transfer itself is slow: check message size, network and placement.",
    ),
    Kind(
        "carried-in",
        "ranks are late before the recording begins",
        "Ranks are late before the recording begins.",
        (Claim("{Ranks} {is|are} late before the recording begins: the cause is earlier"),),
        advice="These ranks are late before the recording begins: record from the start of the job.",
        predicts=False,
    ),
    Kind(
        "started-late",
        "ranks that another rank starts, after it has prepared by itself. They are late in start-up alone: reports "
        "list it after all faults, the text report in its head",
        "A rank starts other ranks, and waits for them.",
        (
            Claim(
                "{Ranks:started_by} starts {ranks} {seconds:started_after_s} after its own start, and waits for "
                "{it|them} in start-up",
                ("started_by", "started_after_s"),
            ),
            Claim("Another rank starts {ranks} late, and waits for {it|them} in start-up"),
        ),
        spends=False,
        advice="A launcher that starts all ranks at once (torchrun, mpirun) lets them prepare at the same time.",
        arrival="is started late",
        mended="if all ranks started together,",
        is_fault=False,
    ),
    Kind(
        "unresolved",
        "ranks are late, and the samples do not explain why",
        "Ranks are late, and the samples do not explain why.",
        (
            Claim(
                "{Ranks} {is|are} late after this call; the recording has no samples between calls",
                ("unsampled",),
            ),
            Claim("{Ranks} {is|are} late here; the samples do not explain why"),
        ),
        advice="The samples do not explain this delay; a higher --rate may.",
        predicts=False,
    ),
    Kind(
        "device-late",
        "the device of a rank takes longer for its kernels than others, which wait for it",
        "The device of some ranks takes longer than others, which wait for it.",
        (
            Claim(
                "The device of {ranks} takes {text:slower} as long as others for everything: it is slow, but has no "
                "more work",
                ("slower",),
            ),
            Claim(
                "The device of {ranks} takes longer for kernels launched here, mostly {text:kernel}, {text:work}",
                ("kernel", "work"),
            ),
            Claim("The device of {ranks} takes longer for kernels launched here, mostly {text:kernel}", ("kernel",)),
            Claim("The device of {ranks} takes longer here than the others"),
        ),
        advice="The device computes longer here than on other ranks: balance its input, or how often this runs.",
        arrival="is late",
        is_on_device=True,
    ),
    Kind(
        "launch-gap",
        "the device of a rank is idle because its host launches too late; other devices wait for it",
        "The device of some ranks is idle, and others wait for it.",
        (
            Claim(
                "The device of {ranks} is idle because the host is late with {text:cause}: {text:doing}",
                ("cause", "doing"),
            ),
            Claim("The device of {ranks} is idle, although the host does no more than others"),
        ),
        advice="Launch kernels earlier: do this on another thread or ahead of time, or do less here.",
        arrival="launches late",
    ),
    Kind(
        "initial-skew",
        "late on its device when the recording begins",
        "Ranks are late on their devices when the recording begins.",
        (
            Claim(
                "{Ranks} {is|are} {seconds:late_s} late on average when steps with recorded device times begin, but "
                "not slow in them",
                ("late_s", "marked_steps"),
            ),
            Claim(
                "{Ranks} {is|are} {seconds:late_s} late when the recording begins, but not slow afterwards",
                ("late_s",),
            ),
            Claim("{Ranks} {is|are} late when the recording begins, but not slow afterwards"),
        ),
        spends=False,
        advice="The recording does not show why: start it earlier, or skip the first step.",
        predicts=False,
    ),
    Kind(
        "hang",
        "a call never returned: the rank that did not reach it, and what it did instead",
        "Ranks wait for others that never arrive.",
        (
            Claim("{Ranks} wait for each other in a cycle (deadlock)", ("circle",)),
            Claim("{Ranks} {waits|wait} for a remote call that no process has begun", ("unbegun",)),
            Claim(
                "{Ranks} {has|have} done {its|their} work, but {does|do} not end, which keeps {ranks:waiting_ranks} "
                "waiting",
                ("unended", "waiting_ranks"),
            ),
            Claim(
                "{Ranks} never returned the result that keeps {ranks:waiting_ranks} waiting",
                ("unreturned", "waiting_ranks"),
            ),
            Claim(
                "{Ranks} never reached the {text:operation} that keeps {ranks:waiting_ranks} waiting, but "
                "{waits|wait} in {text:also_in}",
                ("operation", "waiting_ranks", "also_in"),
            ),
            Claim(
                "{Ranks} never reached the {text:operation} that keeps {ranks:waiting_ranks} waiting",
                ("operation", "waiting_ranks"),
            ),
            Claim("{Ranks} never reached a call that keeps others waiting"),
        ),
        spends=False,
        arrival="does not arrive",
    ),
    Kind(
        "pipeline-imbalance",
        "a pipeline stage takes longer per microbatch than the others; `saving_s` is for a new split of the layers",
        "A pipeline stage takes longer than the others (load imbalance).",
        (
            Claim(
                "Stage {count:stage} ({ranks}) takes {seconds:stage_s} per microbatch, the average stage "
                "{seconds:mean_s}: the others wait for it",
                ("stage_s", "mean_s"),
            ),
            Claim("{Ranks} {has|have} more work in the pipeline than the others"),
        ),
        advice="Give this stage fewer layers, or make them cheaper.",
        arrival="takes longest",
        unit=OF_IDLING,
        predicts=False,
        mended="with a new split of the layers",
    ),
    Kind(
        "pipeline-straggler",
        "a pipeline stage takes longer for some microbatches than it usually does",
        "A pipeline stage takes longer for some microbatches.",
        (
            Claim(
                "{Ranks} {takes|take} {seconds:long_s} instead of {seconds:usual_s} for {text:which}: all wait",
                ("long_s", "usual_s", "which"),
            ),
            Claim("{Ranks} {takes|take} longer for some microbatches, and the pipeline waits"),
        ),
        advice="Check what this stage does for these microbatches only.",
        arrival="takes longer",
        unit=OF_IDLING,
    ),
    Kind(
        "pipeline-lengths",
        "microbatches differ in length on all stages (sequence lengths), and ranks wait for the longest ones",
        "Microbatches of a pipeline differ in length.",
        (
            Claim(
                "Microbatches differ in length: the longest of a step takes {seconds:long_s} on a rank, a usual one "
                "{seconds:usual_s}, and all ranks wait for it",
                ("long_s", "usual_s"),
            ),
            Claim("Microbatches differ in length, and all ranks wait for the longest ones"),
        ),
        spends=False,
        advice="Give all microbatches and replicas the same cost instead of the same number of samples: pack or sort "
        "sequences by their cost, which grows with the square of the length in attention.",
        unit=OF_IDLING,
        mended="with equal lengths",
        is_shared=True,
    ),
    Kind(
        "pipeline-link",
        "messages between pipeline stages are slow",
        "Messages between pipeline stages are slow.",
        (
            Claim(
                "Messages {text:link} take {seconds:latency_s}, others {seconds:others_s}: the pipeline waits for them",
                ("link", "latency_s", "others_s"),
            ),
            Claim("Messages between stages take {seconds:latency_s}, and the pipeline waits for them", ("latency_s",)),
            Claim("Messages between stages are slow"),
        ),
        advice="Check this connection, the message size, and which ranks are neighbours on it.",
        unit=OF_IDLING,
    ),
    Kind(
        "pipeline-host",
        "a pipeline rank does other work between its actions, or loads data, while the pipeline waits",
        "A pipeline rank delays the pipeline between its actions.",
        (
            Claim(
                "{Ranks} {loads|load} input data for {seconds:data_s} before each step, and the pipeline waits",
                ("data_s",),
            ),
            Claim(
                "{Ranks} {spends|spend} {seconds:host_s} of each step between actions, and the pipeline waits",
                ("host_s",),
            ),
            Claim("{Ranks} {delays|delay} the pipeline between actions"),
        ),
        advice="Move this out of the schedule, or to another thread: every microbatch waits for it.",
        arrival="is busy with this",
        unit=OF_IDLING,
    ),
    Kind(
        "pipeline-replica",
        "a replica of a pipeline, or a worker in one, takes longer than the others, which wait to reduce gradients",
        "A pipeline replica takes longer than the others.",
        (
            Claim(
                "{Ranks} {takes|take} {seconds:worker_s} per microbatch, the same stage of other replicas "
                "{seconds:peers_s}: all ranks wait",
                ("worker_s", "peers_s"),
            ),
            Claim(
                "{Ranks} {belongs|belong} to a pipeline replica that takes {seconds:here_s} per step, others "
                "{seconds:others_s}: these wait for its gradients",
                ("here_s", "others_s"),
            ),
            Claim("{Ranks} {belongs|belong} to a pipeline replica that takes longer than the others"),
        ),
        advice="Compare these ranks with those of the same stages in other replicas, and check their cores.",
        arrival="takes longer",
    ),
    Kind(
        "pipeline-schedule",
        "another schedule has a smaller pipeline bubble and needs no more memory. No rank is to blame: reports list "
        "it after all faults, the text report with the pipeline",
        "Another schedule of the pipeline is faster.",
        (
            Claim(
                "The schedule itself leaves ranks idle for {seconds:idle_s} of a step of {seconds:step_s}; "
                "{text:other} takes {seconds:other_s} and needs no more activation memory",
                ("idle_s", "step_s", "other", "other_s"),
            ),
            Claim("The schedule itself leaves ranks idle"),
        ),
        unit=OF_IDLING,
        mended="with that schedule",
        is_fault=False,
    ),
    Kind(
        "rl-long-tail",
        "a process generates a trajectory that is far longer than the others (long tail), and all wait for it",
        "Processes wait for the longest trajectories of a rollout.",
        (
            Claim(
                "One of {ranks}, a different one in each step, still generates while the others wait: "
                "{seconds:phase_s_here} per rollout, the others {seconds:phase_s_others}. {text:longest}",
                ("longest", "in_turns"),
            ),
            Claim(
                "{Ranks} still {generates|generate} while the others wait: {seconds:phase_s_here} per rollout, the "
                "others {seconds:phase_s_others}. {text:longest}",
                ("longest",),
            ),
            Claim("{Ranks} still {generates|generate} while the others wait"),
        ),
        spends=False,
    ),
    Kind(
        "rl-assignment",
        "trajectories are assigned to processes unevenly; another assignment would end sooner",
        "Trajectories are assigned to processes unevenly.",
        (
            Claim(
                "One of {ranks}, a different one in each step, has more to generate than the others: "
                "{seconds:phase_s_here} per rollout, the others {seconds:phase_s_others}",
                ("phase_s_here", "in_turns"),
            ),
            Claim(
                "{Ranks} {has|have} more to generate than the others: {seconds:phase_s_here} per rollout, the others "
                "{seconds:phase_s_others}",
                ("phase_s_here",),
            ),
            Claim("{Ranks} {has|have} more to generate than the others"),
        ),
        spends=False,
    ),
    Kind(
        "rl-verifier",
        "processes wait for another one that still checks or scores answers",
        "Processes wait for a verifier.",
        (
            Claim(
                "{Ranks} {scores|score} answers for {seconds:phase_s_here} per step, the others for "
                "{seconds:phase_s_others}",
                ("phase_s_here",),
            ),
            Claim("{Ranks} still {scores|score} answers while the others wait"),
        ),
        spends=False,
    ),
    Kind(
        "rl-weight-sync",
        "processes wait for new weights",
        "Processes wait for new weights.",
        (
            Claim(
                "{Ranks} {spends|spend} {seconds:phase_s_here} per step on new weights while the others wait",
                ("phase_s_here",),
            ),
            Claim("The others wait for new weights from {ranks}"),
        ),
        spends=False,
    ),
    Kind(
        "rl-data-transfer",
        "processes wait for prompts, answers or advantages that are transferred, or prepared by one process",
        "Processes wait for data of a rollout or of training.",
        (
            Claim(
                "{Ranks} {spends|spend} {seconds:phase_s_here} per step on data while the others wait",
                ("phase_s_here",),
            ),
            Claim("The others wait for data from {ranks}"),
        ),
        spends=False,
    ),
    Kind(
        "rl-evaluation",
        "rollouts and training wait while weights are evaluated",
        "Processes wait for an evaluation of the weights.",
        (
            Claim(
                "{Ranks} {evaluates|evaluate} for {seconds:phase_s_here} per step while the others wait",
                ("phase_s_here",),
            ),
            Claim("The others wait for the evaluation by {ranks}"),
        ),
        spends=False,
    ),
    Kind(
        "rl-starvation",
        "training waits for trajectories that arrive too slowly",
        "Training waits for trajectories.",
        (
            Claim(
                "Trajectories arrive too slowly: a process waits {seconds:lost_s_a_step} per step for them, mostly "
                "because of {ranks}",
                ("lost_s_a_step",),
            ),
            Claim("Training waits for trajectories"),
        ),
        spends=False,
    ),
    Kind(
        "rl-training-imbalance",
        "processes train on different numbers of tokens and wait for the one with the most",
        "Processes train on different numbers of tokens.",
        (
            Claim(
                "{Ranks} {trains|train} on {count:trained_tokens_here} {text:unit} per step "
                "({seconds:phase_s_here}), the others on {count:trained_tokens_others} ({seconds:phase_s_others})",
                ("trained_tokens_here", "trained_tokens_others", "unit"),
            ),
            Claim("{Ranks} {trains|train} on more tokens than the others"),
        ),
        spends=False,
    ),
    Kind(
        "rl-slow-hardware",
        "a process is slower than the others at the same work, in most steps",
        "A process is slower than others at the same work.",
        (
            Claim(
                "{Ranks} {takes|take} {text:times} times as long as the others for the same work "
                "({text:times_by_phase}), in {count:in_steps} of {count:of_steps} steps",
                ("times", "times_by_phase", "in_steps", "of_steps"),
            ),
            Claim(
                "{Ranks} {takes|take} {text:times} times as long as the others for the same work, in {count:in_steps} "
                "of {count:of_steps} steps",
                ("times", "in_steps", "of_steps"),
            ),
            Claim("{Ranks} {is|are} slower than the others at the same work"),
        ),
        spends=False,
    ),
)
"""Of findings in one run."""

SCALING_KINDS = (
    Kind(
        "serial",
        "one rank does this work for all",
        "Work that one rank does for all.",
        (Claim("{Ranks} {does|do} this alone, while the others wait"),),
        advice="One rank does this work for all: distribute it, or overlap it with the work of the others.",
        unit=OF_LOSS,
    ),
    Kind(
        "replicated",
        "every rank does all of this work",
        "Work that every rank does in full.",
        (Claim("Every rank does this work in full: more ranks do not reduce it"),),
        advice="Every rank does all of this work: divide it among the ranks and exchange the parts, or do it once and "
        "cache the result.",
        unit=OF_LOSS,
    ),
    Kind(
        "communication",
        "the communication itself takes longer on more ranks",
        "Communication that takes longer on more ranks.",
        (),
        advice="The communication itself takes longer on more ranks: send less, in fewer or non-blocking messages, or "
        "among fewer ranks.",
        unit=OF_LOSS,
    ),
    Kind(
        "unresolved",
        "ranks are late, and the samples do not explain why",
        "Ranks are late, and the samples do not explain why.",
        (Claim("{Ranks} {arrives|arrive} late here; the samples do not explain why"),),
        unit=OF_LOSS,
        predicts=False,
    ),
    Kind(
        "non-scalable",
        "work that shrinks less than the number of ranks grows",
        "Work that does not scale.",
        (),
        unit=OF_LOSS,
    ),
)
"""Of findings over runs of several sizes."""

BY_NAME = {kind.name: kind for kind in KINDS}


def kind_of(name: str) -> Kind:
    """The row of a kind; of one that is not known, a row that says no more than its name."""
    words = name.replace("-", " ")
    return BY_NAME.get(name) or Kind(name, words, f"{words.capitalize()}.", (Claim("{Ranks}: " + words),))
