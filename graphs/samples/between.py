"""The time between neighbouring samples of a thread: where it was, whether it ran, and whether it waited for a core."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.graphs.arrays.columns import to_seconds
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.attribution.places import Places
from scalana.graphs.readers.folder.records import Samples
from scalana.runtime.record.format import STATE_ASLEEP, STATE_DISK, STATE_IPC, STATE_LOCK, STATE_RUNNING, STATE_UNKNOWN

RESTING = np.isin(np.arange(6), (STATE_ASLEEP, STATE_LOCK, STATE_IPC, STATE_DISK))
"""Whether a thread neither runs nor wants to ``[states]``."""
_MOST_WAIT_NS = 1 << 42
"""More than any thread waits for a core at a time (73 minutes)."""


@dataclass(slots=True)
class Rates:
    """What a clock counts a second in the stretch from each sample to the next."""

    before: FloatArray
    """Until the border ``[samples]``."""
    after: FloatArray
    """From the border until the rest that follows ``[samples]``."""


@dataclass(slots=True)
class Stretches:
    """Neighbouring samples of a thread, and how the time between them divides."""

    follows: BoolArray
    """Whether row ``i + 1`` is of the same thread ``[samples]``."""
    border_ns: IntArray
    """Where sample ``i`` hands over to the next ``[samples]``."""
    over_ns: IntArray
    """From here on to sample ``i + 1`` the thread rested ``[samples]``."""
    cpu: Rates
    core_wait: Rates

    def around(self, time_ns: IntArray, period_ns: int) -> tuple[IntArray, IntArray]:
        """From when to when each sample stands for where its thread was: from the border with the one before to that
        with the next; of a thread's first and last one for half a period ``[samples]``."""
        since, until = time_ns - period_ns // 2, np.where(self.follows, self.border_ns, time_ns + period_ns // 2)
        since[1:] = np.where(self.follows[:-1], self.border_ns[:-1], since[1:])
        return since, until


def stretches_of(samples: Samples, places: Places, period_ns: int) -> Stretches:
    """Divide the time between neighbouring samples.

    The border is the midpoint, unless the thread did not run in between: then it stayed where the earlier sample
    says until the last period, since a thread that does not advance writes no samples. Who was at rest in the earlier
    one stayed there until what it then ran, and waited for a core, began; that is right before the later one, or, if
    it was at rest again, at any time, as likely early as late; who has not run at all has but begun to wait. Who ran in
    the earlier one and was at rest in the later ran, and waited for a core, on the way from one place to the other, and
    then rested in the later: it would have been found at rest in the earlier. So did who computed in the earlier, and
    was in a library's function in the later: of many short rests a look finds few.
    """
    time, n = samples.time_ns, len(samples)
    follows = np.zeros(n, np.bool_)
    border, over = time.copy(), time.copy()
    cpu_rates, wait_rates = (Rates(np.zeros(n), np.zeros(n)) for _ in range(2))
    if n > 1:
        follows[:-1] = samples.thread[1:] == samples.thread[:-1]
        apart = np.maximum(time[1:] - time[:-1], 1)
        cpu = np.minimum(samples.cpu_ns[1:], apart)
        wait = _carried_back(samples.core_wait_ns[1:], apart - cpu, follows[:-1])
        rested = RESTING[samples.state[:-1]]
        far = 2 * apart > 3 * period_ns
        running, computes = samples.state == STATE_RUNNING, places.computes[samples.path]
        to_call = (running & computes)[:-1] & (running & ~computes)[1:]
        rests = far & ~rested & (RESTING[samples.state[1:]] | to_call)
        held = rested | (far & ~rests & (2 * (cpu + wait) < apart))
        middle = (time[:-1] + time[1:]) // 2
        border[:-1] = np.where(held, np.maximum(middle, time[1:] - period_ns // 2), middle)
        began = time[1:] - cpu - wait
        began = np.where(RESTING[samples.state[1:]] & (cpu > 0), (time[:-1] + began) // 2, began)
        border[:-1] = np.where(rested, began, border[:-1])
        half = np.maximum((cpu + wait) // 2, period_ns // 2)
        border[:-1] = np.where(rests, time[:-1] + half, border[:-1])
        over[:-1] = np.where(rests, np.minimum(border[:-1] + half, time[1:]), time[1:])
        ran = np.where(held, np.maximum(time[1:] - border[:-1], 1), apart)
        moves = np.where(rests, 0.5 * apart / np.maximum(border[:-1] - time[:-1], 1), 1.0)
        rests_on = np.where(rests, 0.5 * apart / np.maximum(over[:-1] - border[:-1], 1), 1.0)
        for spent, rates in ((cpu, cpu_rates), (wait, wait_rates)):
            rates.before[:-1] = np.where(held, 0.0, np.minimum(moves * spent / ran, 1.0))
            rates.after[:-1] = np.minimum(rests_on * spent / ran, 1.0)
    return Stretches(follows, border, over, cpu_rates, wait_rates)


def _carried_back(wait_ns: IntArray, room_ns: IntArray, follows: BoolArray) -> IntArray:
    """How long threads waited for a core in each stretch between samples ``[stretches]``.

    The kernel tells it when a thread has got one: what does not fit into that stretch was waited in those before, in
    which the thread was seen not to run.
    """
    over = wait_ns - room_ns
    if over.max() <= 0:
        return wait_ns
    total = np.cumsum(np.where(follows, over, -_MOST_WAIT_NS)[::-1])
    over = (total - np.minimum(np.minimum.accumulate(total), 0))[::-1]  # what each stretch hands to the one before
    return np.minimum(wait_ns + np.append(over[1:], 0), room_ns)


def active(samples: Samples, places: Places, stretches: Stretches) -> BoolArray:
    """Whether a thread does something in a sample: runs, sleeps or is busy with a disk; not: waits for others."""
    cpu = np.zeros(len(samples))
    ran = (stretches.over_ns - stretches.border_ns)[:-1] / np.maximum(samples.time_ns[1:] - stretches.border_ns[:-1], 1)
    cpu[1:] = np.where(stretches.follows[:-1], stretches.cpu.after[:-1] * ran, 0.0)
    waits, spins = places.waits[samples.path], places.spins[samples.path]
    acts = (samples.state == STATE_RUNNING) | (samples.state == STATE_ASLEEP) | (samples.state == STATE_DISK)
    acts |= (samples.state == STATE_UNKNOWN) & ~waits
    runs = cpu > 0.5  # who was woken up and has no core yet does not spin
    return np.asarray((acts & ~(runs & spins)) | (runs & ~waits & ~spins))


def active_s(samples: Samples, places: Places, period_ns: int) -> FloatArray:
    """Seconds that each sample stands for if its thread was active in it, else 0 ``[samples]``.

    The first sample of a thread stands for half a period before it, the last for half a period after it.
    """
    stretches = stretches_of(samples, places, period_ns)
    since, until = stretches.around(samples.time_ns, period_ns)
    return np.where(active(samples, places, stretches), to_seconds(until - since), 0.0)
