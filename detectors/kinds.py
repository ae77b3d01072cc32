"""The kinds of findings: one row each, read by every report, by the advice, and by the documents.

A claim is a text with fields in braces. ``{Ranks}`` and ``{ranks}`` are the ranks of the finding, ``{one|many}`` a
word that agrees with their number, ``{seconds:KEY}``, ``{count:KEY}``, ``{text:KEY}`` and ``{ranks:KEY}`` a value of
the evidence. Of the claims of a kind the first is made whose keys the evidence has.
"""

from __future__ import annotations

from dataclasses import dataclass

OF_WAITING = "of waiting"
OF_LONGER_WORK = "that others could have worked less"
OF_IDLING = "in which ranks of the pipeline are idle"
OF_LOSS = "more than with ideal scaling"


@dataclass(frozen=True, slots=True)
class Claim:
    """What is said of a finding, in one sentence."""

    text: str
    needs: tuple[str, ...] = ()
    """Keys of the evidence without which it cannot be said."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of finding."""

    name: str
    meaning: str
    """What ``docs/report.md`` says of it, after its name."""
    rule: str
    """Short description as a rule (SARIF)."""
    claims: tuple[Claim, ...]
    """The first that the evidence allows is made; the last needs nothing. None where the report compares sizes."""
    compares: bool = False
    """Whether the claim is what the ranks spend at the place beside the others, where that is known."""
    spends: bool = True
    """Whether what the ranks spend at the place is put behind other claims."""
    advice: str = ""
    """What to do about any finding of this kind; empty where its evidence decides."""
    arrival: str = "is late"
    """What a rank does at the end of the way from the symptom to the cause."""
    unit: str = OF_WAITING
    """What the seconds of ``lost_s`` are."""
    predicts: bool = True
    """Whether a saving can be predicted at all."""
    mended: str = "without it"
    """When the run would be as much shorter as is predicted."""
    is_on_device: bool = False
    """Whether it is devices that take longer, rather than the ranks' hosts."""
    is_fault: bool = True
    """Whether something is wrong; else it is known what would be better, and it comes after all faults."""


KINDS = (
    Kind(
        "late-ranks",
        "ranks take longer at a place than the others, who wait for them",
        "Some ranks take longer here than the others, who wait for them.",
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
    Kind(
        "slow-worker",
        "a rank takes longer for a task where the rank that is free takes the next one; `lost_s` is that",
        "Some ranks take longer for a task than the others, and do fewer.",
        (
            Claim(
                "{Ranks} {takes|take} {seconds:task_s_here} for a task, the others {seconds:task_s_others}: "
                "so {it does|they do} {count:tasks_here} of them, and each other rank {count:tasks_others}",
                ("task_s_here", "task_s_others", "tasks_here", "tasks_others"),
            ),
            Claim("{Ranks} {takes|take} longer for a task than the others"),
        ),
        advice="Look at what is done here for a task that others do not do, and at its core.",
        arrival="is slow",
        unit=OF_LONGER_WORK,
    ),
    Kind(
        "waiting-for-core",
        "ranks are ready to run, but have no core",
        "Ranks are ready to run, but wait for a core.",
        (Claim("{Ranks} {is|are} ready to run here, but {waits|wait} for a core"),),
        advice="Ranks wait here for a CPU core: give each rank a core of its own, or fewer threads.",
    ),
    Kind(
        "helper-takes-core",
        "a thread or child of a rank takes the core that it needs",
        "A thread or process of a rank takes the core that the rank needs.",
        (Claim("A thread or process of {ranks} computes here, and takes the core from {it|them}"),),
        advice="Make this cheaper, or give it a core of its own: the rank cannot compute while it does.",
    ),
    Kind(
        "slow-transfer",
        "what a rank sends arrives late by itself, while nobody works",
        "Data arrives late while no rank works.",
        (Claim("What {ranks} {sends|send} arrives late by itself, while nobody works"),),
        advice="The data itself arrives late here: look at message size, network and placement.",
    ),
    Kind(
        "carried-in",
        "ranks are late before the record begins",
        "Ranks are late from before the record begins.",
        (Claim("{Ranks} {is|are} late from before the record begins: the cause lies earlier"),),
        advice="These ranks were late before recording began; record from the start of the job to see why.",
        predicts=False,
    ),
    Kind(
        "unresolved",
        "ranks are late, and the samples do not say why",
        "Ranks are late, and the samples do not explain why.",
        (
            Claim(
                "{Ranks} {is|are} late after this call; what {it does|they do} between calls was not recorded",
                ("unsampled",),
            ),
            Claim("{Ranks} {is|are} late here; the samples do not explain why"),
        ),
        advice="The samples do not explain this lateness; a higher --rate may.",
        predicts=False,
    ),
    Kind(
        "device-late",
        "the device of a rank takes longer for its kernels than the others', which wait for it",
        "The device of some ranks takes longer than the others, which wait for it.",
        (
            Claim(
                "The device of {ranks} takes {text:slower} as long as those of others for everything: it is slow, not "
                "given more work",
                ("slower",),
            ),
            Claim(
                "The device of {ranks} takes longer for what is launched here, most of it {text:kernel}, {text:work}",
                ("kernel", "work"),
            ),
            Claim(
                "The device of {ranks} takes longer for what is launched here, most of it {text:kernel}", ("kernel",)
            ),
            Claim("The device of {ranks} takes longer here than the others"),
        ),
        advice="The device computes longer here than on other ranks: balance what it is given, or how often it runs.",
        arrival="is late",
        is_on_device=True,
    ),
    Kind(
        "launch-gap",
        "the device of a rank has nothing to do, as its host launches too late; other devices wait for it",
        "The device of some ranks has nothing to do, and others wait for it.",
        (
            Claim(
                "The device of {ranks} has nothing to do, as the host is late with {text:cause}: {text:doing}",
                ("cause", "doing"),
            ),
            Claim("The device of {ranks} has nothing to do, and the host did not more than others"),
        ),
        advice="Give the device its work earlier: do this on another thread or ahead of time, or less of it.",
        arrival="launches late",
    ),
    Kind(
        "initial-skew",
        "late on its device when the record begins",
        "Ranks are late on their devices when the record begins.",
        (
            Claim(
                "{Ranks} {is|are} {seconds:late_s} late on average when those steps begin in which devices were looked "
                "at: not slow in these",
                ("late_s", "marked_steps"),
            ),
            Claim(
                "{Ranks} {is|are} {seconds:late_s} late when the record begins: not slow in what was recorded",
                ("late_s",),
            ),
            Claim("{Ranks} {is|are} late when the record begins: not slow in what was recorded"),
        ),
        spends=False,
        advice="The record does not show why: begin recording earlier, or leave the first step out.",
        predicts=False,
    ),
    Kind(
        "hang",
        "a call never returned: the rank that did not come to it, and what it did instead",
        "Ranks wait for others that never arrive.",
        (
            Claim("{Ranks} wait for each other in a circle, to the end", ("circle",)),
            Claim(
                "{Ranks} never came to the {text:operation} in which {ranks:waiting_ranks} waited to the end, but "
                "{waits|wait} in {text:also_in}",
                ("operation", "waiting_ranks", "also_in"),
            ),
            Claim(
                "{Ranks} never came to the {text:operation} in which {ranks:waiting_ranks} waited to the end",
                ("operation", "waiting_ranks"),
            ),
            Claim("{Ranks} never came to a call in which others waited to the end"),
        ),
        spends=False,
        arrival="does not come",
    ),
    Kind(
        "pipeline-imbalance",
        "a stage of a pipeline has more to do for a microbatch than the others; `saving_s` is that of a new split",
        "A stage of a pipeline has more to do than the others.",
        (
            Claim(
                "Stage {count:stage} ({ranks}) takes {seconds:stage_s} for a microbatch, a stage {seconds:mean_s} on "
                "average: the others wait for it",
                ("stage_s", "mean_s"),
            ),
            Claim("{Ranks} {has|have} more to do in the pipeline than the others"),
        ),
        advice="Give this stage fewer layers, or make them cheaper.",
        arrival="takes longest",
        unit=OF_IDLING,
        predicts=False,
        mended="with the layers split anew",
    ),
    Kind(
        "pipeline-straggler",
        "a stage of a pipeline takes longer for some microbatches than it usually does",
        "A stage of a pipeline takes longer for some microbatches.",
        (
            Claim(
                "{Ranks} {takes|take} {seconds:long_s} instead of {seconds:usual_s} at {text:which}: all wait",
                ("long_s", "usual_s", "which"),
            ),
            Claim("{Ranks} {takes|take} longer for some microbatches, and the pipeline waits"),
        ),
        advice="Look at what is done here for these microbatches and not for others.",
        arrival="takes longer",
        unit=OF_IDLING,
    ),
    Kind(
        "pipeline-link",
        "messages between stages of a pipeline take long",
        "Messages between stages of a pipeline take long.",
        (
            Claim(
                "Messages {text:link} take {seconds:latency_s}, others {seconds:others_s}: the pipeline waits for them",
                ("link", "latency_s", "others_s"),
            ),
            Claim("Messages between stages take {seconds:latency_s}, and the pipeline waits for them", ("latency_s",)),
            Claim("Messages between stages take long"),
        ),
        advice="Look at this connection, at the size of what is sent, and at which ranks are neighbours on it.",
        unit=OF_IDLING,
    ),
    Kind(
        "pipeline-host",
        "a rank of a pipeline does other things between its actions, or loads data, while the pipeline waits",
        "A rank of a pipeline holds it up between its actions.",
        (
            Claim(
                "{Ranks} {loads|load} input data for {seconds:data_s} before each step, and the pipeline waits",
                ("data_s",),
            ),
            Claim(
                "{Ranks} {spends|spend} {seconds:host_s} of each step between actions, and the pipeline waits",
                ("host_s",),
            ),
            Claim("{Ranks} {holds|hold} the pipeline up between actions"),
        ),
        advice="Move this out of the schedule, or onto another thread: every microbatch waits for it.",
        arrival="is busy with it",
        unit=OF_IDLING,
    ),
    Kind(
        "pipeline-replica",
        "one replica of a pipeline takes longer for a step than the others, which wait for it in reducing gradients",
        "A replica of a pipeline takes longer than the others.",
        (
            Claim(
                "{Ranks} {holds|hold} stages of a replica of the pipeline that takes {seconds:here_s} for a step, "
                "others {seconds:others_s}: these wait for its gradients",
                ("here_s", "others_s"),
            ),
            Claim("{Ranks} {holds|hold} stages of a replica of the pipeline that takes longer than the others"),
        ),
        advice="Look at what these ranks do more than those of the same stages in other replicas, and at their cores.",
        arrival="takes longer",
    ),
    Kind(
        "pipeline-schedule",
        "another schedule would leave ranks of a pipeline idle for less time, with no more memory. No rank is to "
        "blame: it comes after all faults, and in the text with the pipeline",
        "Another schedule of the pipeline is faster.",
        (
            Claim(
                "The schedule itself leaves ranks idle for {seconds:idle_s} of a step of {seconds:step_s}; "
                "{text:other} needs no more memory for activations and takes {seconds:other_s}",
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
        "a process generates a trajectory that is far longer than the others, and all wait for it",
        "Processes wait for the longest trajectories of a rollout.",
        (
            Claim(
                "One of {ranks}, from step to step another one, is still generating while the others wait: "
                "{seconds:phase_s_here} in a rollout, the others {seconds:phase_s_others}. {text:longest}",
                ("longest", "in_turns"),
            ),
            Claim(
                "{Ranks} {is|are} still generating while the others wait: {seconds:phase_s_here} in a rollout, the "
                "others {seconds:phase_s_others}. {text:longest}",
                ("longest",),
            ),
            Claim("{Ranks} {is|are} still generating while the others wait"),
        ),
        spends=False,
    ),
    Kind(
        "rl-assignment",
        "trajectories are given to processes unevenly, and another assignment would end sooner",
        "Trajectories are spread unevenly over processes.",
        (
            Claim(
                "One of {ranks}, from step to step another one, has more to generate than the others: "
                "{seconds:phase_s_here} in a rollout, the others {seconds:phase_s_others}",
                ("phase_s_here", "in_turns"),
            ),
            Claim(
                "{Ranks} {has|have} more to generate than the others: {seconds:phase_s_here} in a rollout, the others "
                "{seconds:phase_s_others}",
                ("phase_s_here",),
            ),
            Claim("{Ranks} {has|have} more to generate than the others"),
        ),
        spends=False,
    ),
    Kind(
        "rl-verifier",
        "processes wait for one that checks or scores its answers",
        "Processes wait for a verifier.",
        (
            Claim(
                "{Ranks} {scores|score} answers for {seconds:phase_s_here} a step, the others for "
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
                "{Ranks} {spends|spend} {seconds:phase_s_here} a step on new weights, for which the others wait",
                ("phase_s_here",),
            ),
            Claim("The others wait for new weights from {ranks}"),
        ),
        spends=False,
    ),
    Kind(
        "rl-data-transfer",
        "processes wait for data: prompts, answers, advantages, on their way or prepared by one of them",
        "Processes wait for data of a rollout or of training.",
        (
            Claim(
                "{Ranks} {spends|spend} {seconds:phase_s_here} a step on data, for which the others wait",
                ("phase_s_here",),
            ),
            Claim("The others wait for data from {ranks}"),
        ),
        spends=False,
    ),
    Kind(
        "rl-evaluation",
        "rollouts and training wait while weights are evaluated",
        "Processes wait until weights have been evaluated.",
        (
            Claim(
                "{Ranks} {evaluates|evaluate} for {seconds:phase_s_here} a step, and the others wait",
                ("phase_s_here",),
            ),
            Claim("The others wait for the evaluation by {ranks}"),
        ),
        spends=False,
    ),
    Kind(
        "rl-starvation",
        "training waits for trajectories that come too slowly",
        "Training waits for trajectories.",
        (
            Claim(
                "Trajectories come too slowly: a process waits {seconds:lost_s_a_step} a step for them, most of it "
                "because of {ranks}",
                ("lost_s_a_step",),
            ),
            Claim("Training waits for trajectories"),
        ),
        spends=False,
    ),
    Kind(
        "rl-training-imbalance",
        "processes train on different numbers of tokens, and wait for the one with most",
        "Processes train on different numbers of tokens.",
        (
            Claim(
                "{Ranks} {trains|train} on {count:trained_tokens_here} {text:unit} a step, the others on "
                "{count:trained_tokens_others}: {seconds:phase_s_here}, the others {seconds:phase_s_others}",
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
        "one rank does this for all",
        "Work that one rank does for all.",
        (Claim("{Ranks} {does|do} this alone, while the others wait"),),
        advice="One rank does this for all: share it among the ranks, or overlap it with their work.",
        unit=OF_LOSS,
    ),
    Kind(
        "replicated",
        "every rank does all of this",
        "Work that every rank does in full.",
        (Claim("Every rank does this work in full: it does not become less on more ranks"),),
        advice="Every rank does all of this: divide it among the ranks and exchange the parts, or do it once and keep "
        "the result.",
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
        "ranks are late, and the samples do not say why",
        "Ranks are late, and the samples do not explain why.",
        (Claim("{Ranks} {arrives|arrive} late here; the samples do not explain why"),),
        unit=OF_LOSS,
        predicts=False,
    ),
    Kind(
        "non-scalable",
        "work that shrinks less than the ranks grow",
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
