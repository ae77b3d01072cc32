"""The kinds of causes that all ranks share: one row each."""

from __future__ import annotations

from scalana.detectors.kind import OF_ALL, OF_DATA, OF_EXPERTS, Claim, Kind


def _of_all(
    name: str, meaning: str, rule: str, doing: str, mended: str, is_last: bool = False, first: tuple[Claim, ...] = ()
) -> Kind:
    """A cause that all ranks share: its claim is how much of a step they spend ``doing`` it, or of a run without
    steps, if none of the ``first`` can be made."""
    spends = "{Ranks} {spends|spend}"
    claims = (
        *first,
        Claim(f"{spends} {{seconds:limit_s}} of an average step of {{seconds:step_s}} {doing}", ("limit_s", "step_s")),
        Claim(f"{spends} {{seconds:limit_s}} of {{seconds:run_s}} {doing}", ("limit_s", "run_s")),
        Claim(f"{spends} time {doing}"),
    )
    return Kind(name, meaning, rule, claims, unit=OF_ALL, mended=mended, spends=False, is_shared=True, is_last=is_last)


def _on_devices(name: str, meaning: str, rule: str, claim: str, mended: str, is_fault: bool = True) -> Kind:
    """A cause on devices that all ranks share: of a step, or of a run without steps."""
    needs = ("limit_s", "device_works")
    claims = (
        Claim(claim.replace("STEP", "an average step of {seconds:step_s}"), (*needs, "step_s")),
        Claim(claim.replace("STEP", "{seconds:run_s}"), (*needs, "run_s")),
        Claim(rule.removesuffix(".")),
    )
    return Kind(
        name,
        meaning,
        rule,
        claims,
        unit=OF_ALL,
        mended=mended,
        spends=False,
        is_shared=True,
        is_on_device=True,
        is_fault=is_fault,
    )


SHARED = (
    Kind(
        "slow-source",
        "a source of a mixture of data (a data set, a modality) is far more expensive to load than the others, so that "
        "steps are late for it, with what dealing it out evenly or more workers would save",
        "A source of a mixture of data is far more expensive to load than the others.",
        (
            Claim(
                "{Ranks} {loads|load} {times:source_times} times as much of source `{text:source}` as the median rank: "
                "it has {percent:source_samples} of the samples of {count:sources} sources, and takes "
                "{percent:source_share} of the time of loading",
                ("source_times",),
            ),
            Claim(
                "Only {ranks} {loads|load} source `{text:source}`: it has {percent:source_samples} of the samples of "
                "{count:sources} sources, and takes {percent:source_share} of the time of loading",
                ("source_alone",),
            ),
            Claim(
                "Source `{text:source}` has {percent:source_samples} of the samples of {count:sources} sources, and "
                "takes {percent:source_share} of the time of loading",
                ("source",),
            ),
            Claim("A source of data is more expensive to load than the others"),
        ),
        arrival="waits for data",
        spends=False,
        mended="with another way to load it",
        unmended="Another way to load it would not shorten the run",
    ),
    Kind(
        "input-bound",
        "all ranks wait for data in their steps, with what more workers of their DataLoaders would save",
        "All ranks wait for data in every step.",
        (
            Claim(
                "{Ranks} {waits|wait} at the beginning of each epoch, as the DataLoader starts its workers again",
                ("worker_start_s",),
            ),
            Claim(
                "{Ranks} {spends|spend} {seconds:data_s} of an average step of {seconds:step_s} waiting for data",
                ("data_s", "step_s"),
            ),
            Claim("{Ranks} {spends|spend} {seconds:limit_s} of {seconds:run_s} waiting for data", ("limit_s", "run_s")),
            Claim("{Ranks} {waits|wait} for data in every step"),
        ),
        arrival="waits for data",
        unit=OF_DATA,
        is_shared=True,
        mended="with more DataLoader workers",
        spends=False,
    ),
    Kind(
        "expert-loads",
        "a loop waits for experts (weights) that it loads from files or from memory of the host while it computes, "
        "with what loading them earlier, or keeping more of them, would save",
        "A loop waits for experts that it loads while it computes.",
        (
            Claim(
                "{Ranks} {waits|wait} {seconds:expert_wait_s} of {seconds:expert_loop_s} for experts that are loaded "
                "while the model computes: {count:expert_loads} of {count:expert_lookups} lookups load (hit rate "
                "{percent:expert_hit_rate}), at {rate:expert_bytes_per_s}",
                ("expert_wait_s", "expert_hit_rate"),
            ),
            Claim(
                "{Ranks} {waits|wait} {seconds:expert_wait_s} of {seconds:expert_loop_s} for experts that are loaded "
                "while the model computes: {count:expert_loads} loads, at {rate:expert_bytes_per_s}",
                ("expert_wait_s",),
            ),
            Claim("{Ranks} {waits|wait} for experts that are loaded while the model computes"),
        ),
        arrival="waits for experts",
        unit=OF_EXPERTS,
        is_shared=True,
        mended="with experts loaded earlier",
        unmended="Earlier loads would not shorten the run",
        spends=False,
    ),
    Kind(
        "worker-bound",
        "a process waits for others that take its calls, such as a pool, all busy alike; with what more of them would "
        "save",
        "The processes that work for another one are too few.",
        (
            Claim(
                "{Ranks} {waits|wait} {seconds:worker_wait_s} of an average step of {seconds:step_s} for the work of "
                "{text:worker_names}, all of them busy alike",
                ("worker_wait_s", "step_s"),
            ),
            Claim("{Ranks} {waits|wait} for processes that work for it"),
        ),
        arrival="works",
        is_shared=True,
        mended="with more of them",
        spends=False,
    ),
    Kind(
        "one-at-a-time",
        "a process makes each call when it has the result of the one before, although several processes could work on "
        "them at the same time",
        "A process waits for each call before it makes the next one.",
        (
            Claim(
                "{Ranks} {waits|wait} for each of {count:calls_in_turn} calls before the next one, although "
                "{count:could_take} processes could work at the same time",
                ("calls_in_turn", "could_take"),
            ),
            Claim("{Ranks} {waits|wait} for each call before the next one"),
        ),
        arrival="works",
        is_shared=True,
        mended="with the calls at the same time",
        spends=False,
    ),
    _of_all(
        "collection-bound",
        "all ranks collect garbage in their steps",
        "All ranks collect garbage in every step.",
        "collecting garbage",
        "without it",
    ),
    _of_all(
        "write-bound",
        "all ranks write checkpoints, logs or other files in their steps, and wait for that",
        "All ranks write to disk in their steps.",
        "writing to disk",
        "without waiting for it",
    ),
    _of_all(
        "gil-bound",
        "threads of all ranks run Python code next to their main threads, which wait for the interpreter's lock (GIL); "
        "`saving_s` is for a process instead of the thread",
        "Main threads wait for the interpreter's lock (GIL).",
        "waiting for the interpreter's lock (GIL), which another thread holds here",
        "in a process of its own",
    ),
    _of_all(
        "lock-bound",
        "all ranks wait for locks, of their own threads or of files",
        "All ranks wait for locks in their steps.",
        "waiting for a lock",
        "without it",
    ),
    _of_all(
        "pickle-bound",
        "all ranks serialise objects in their steps",
        "All ranks serialise objects in their steps.",
        "serialising objects",
        "without it",
    ),
    _of_all(
        "program-bound",
        "all ranks start other programs in their steps, and wait for them",
        "All ranks wait for programs that they start.",
        "waiting for programs that they start",
        "without it",
    ),
    _of_all(
        "read-bound",
        "all ranks wait for input from files, pipes or sockets in their steps",
        "All ranks wait for input in their steps.",
        "waiting for input",
        "without it",
    ),
    _of_all(
        "communication-bound",
        "communication of all ranks takes a large part of a step, though no rank is late: transfers, or calls that the "
        "program could do without; `saving_s` is for an ideal network, or without these calls",
        "Communication takes a large part of every step.",
        "in transfers, without waiting for other ranks",
        "on an ideal network",
        first=(
            Claim(
                "{Ranks} {reduces|reduce} the same gradients {count:reduced_times} times in a step, which takes "
                "{seconds:limit_s} of {seconds:step_s}",
                ("reduced_times", "limit_s", "step_s"),
            ),
            Claim(
                "{Ranks} {spends|spend} {seconds:limit_s} of an average step of {seconds:step_s} in {text:spared}",
                ("spared", "limit_s", "step_s"),
            ),
        ),
    ),
    Kind(
        "slow-link",
        "the network between some hosts moves far fewer bytes a second than that between others, for transfers of the "
        "same size; `saving_s` is for a link as fast as the others",
        "A link between hosts is slower than the others.",
        (
            Claim(
                "{text:slow_link} moves {rate:link_bytes_per_s}, the others {rate:others_bytes_per_s}: "
                "{text:link_operation} takes {seconds:link_call_s} here instead of {seconds:link_usual_call_s}",
                ("slow_link",),
            ),
            Claim("A link between the hosts of {ranks} is slower than the others"),
        ),
        advice="Look at this link first: the interface that the job uses (NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME), its "
        "negotiated speed (ethtool), errors and retransmissions (ip -s link, nstat), cable and switch port, other "
        "traffic. Until it is repaired, leave these hosts out, or place ranks so that less data crosses it.",
        unit=OF_ALL,
        mended="with this link as fast as the others",
        spends=False,
        is_shared=True,
    ),
    _of_all(
        "core-bound",
        "the processes and threads of the job keep all cores of a host busy, and wait for their turns; `saving_s` is "
        "for a core for each",
        "The job keeps all cores of a host busy.",
        "ready to run, but waiting for a core",
        "with a core for each",
    ),
    _of_all(
        "python-bound",
        "all ranks run loops in Python, whose turns take microseconds: serial code, most of it the interpreter's work. "
        "It may be what the program is for: it comes after all faults",
        "All ranks run loops in Python in their steps.",
        "in loops that Python runs turn by turn",
        "without them",
        is_last=True,
    ),
    _of_all(
        "compile-bound",
        "all ranks compile (torch.compile) in their steady steps, again and again",
        "All ranks compile in their steps.",
        "compiling",
        "without it",
    ),
    _on_devices(
        "sync-bound",
        "all ranks wait for their devices in their steps (`.item()`, `.cpu()`, `synchronize`), which then have nothing "
        "to do until hosts launch again; `saving_s` is without this wait",
        "Hosts wait for their devices in every step.",
        "{Ranks} {waits|wait} {seconds:limit_s} of STEP here for {its device, which has|their devices, which have} "
        "nothing to do from then to the next launch: {seconds:device_idle_s} in all",
        "if no rank waited here,",
    ),
    _on_devices(
        "launch-bound",
        "devices of all ranks have nothing to do because their hosts launch many short kernels too slowly; `saving_s` "
        "is for launches that take no time",
        "Devices wait for launches of short kernels.",
        "{Ranks} {spends|spend} {seconds:limit_s} of STEP launching {count:device_works} kernels, which take "
        "{seconds:device_busy_s} together. Meanwhile {its device has|their devices have} nothing to do for "
        "{seconds:device_idle_s}",
        "if launches took no time,",
    ),
    _on_devices(
        "host-bound",
        "devices of all ranks have nothing to do while their hosts work at a place",
        "Devices wait for work of their hosts.",
        "{Ranks} {spends|spend} {seconds:limit_s} of STEP here on {its host|their hosts}. "
        "{Its device has|Their devices have} nothing to do for {seconds:device_idle_s}",
        "without it",
    ),
    _on_devices(
        "copy-bound",
        "devices of all ranks spend their steps on copies from their hosts",
        "Devices wait for copies from their hosts.",
        "The {device|devices} of {ranks} {spends|spend} {seconds:limit_s} of STEP on copies from the host",
        "without them",
    ),
    _on_devices(
        "device-bound",
        "devices of all ranks are busy for nearly the whole step, and most of that with kernels that one place "
        "launches. No fault: reports list it after all faults, the text report with the devices",
        "Devices are busy for the whole step.",
        "The {device|devices} of {ranks} {is|are} busy for {seconds:device_busy_s} of STEP, {seconds:limit_s} of it "
        "with kernels that are launched here",
        "without them",
        is_fault=False,
    ),
)
"""A row: name, meaning, rule, what ranks are doing meanwhile, and when the run would be shorter."""
