"""What main threads post, and what that takes: a collective or a message that is waited for later takes what the wait
takes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.detectors.facts import Facts
from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.timeline import Timeline
from scalana.runtime.operations import MESSAGES


@dataclass(frozen=True, slots=True)
class PostedCalls:
    """Calls that wait, each with the post of what it waits for: one row a pair."""

    timeline: Timeline
    call: IntArray
    """That waits; a blocking call waits for itself ``[pairs]``."""
    post: IntArray
    """The call of its own location that posted this, -1 where there is none ``[pairs]``."""
    part: FloatArray
    """Which part of the call is for this: by bytes ``[pairs]``."""

    @classmethod
    def of(cls, timeline: Timeline) -> PostedCalls:
        """Those of a run."""
        calls, instances = timeline.calls, len(timeline.instances) + 1
        call = np.repeat(np.arange(len(calls)), np.diff(calls.wait_first))
        posts = np.flatnonzero(calls.posts >= 0)
        key = calls.location[posts].astype(np.int64) * instances + calls.posts[posts]
        order = np.argsort(key, kind="stable")
        wanted = calls.location[call].astype(np.int64) * instances + calls.waits
        at = np.searchsorted(key[order], wanted)
        post = np.append(posts[order], -1)[at]
        post = np.where(np.append(key[order], -1)[at] == wanted, post, -1)
        size = np.where(post >= 0, np.maximum(calls.nbytes[post], 1), 1).astype(np.float64)
        return cls(timeline, call, post, size / np.maximum(weighted_count(call, size, len(calls))[call], 1e-300))

    def seconds(self, call_s: FloatArray) -> FloatArray:
        """What of some seconds of each call everything takes that is posted, by its post ``[calls]``."""
        calls, known = self.timeline.calls, self.post >= 0
        itself_s = np.where(np.diff(calls.wait_first) > 0, 0.0, call_s)
        waited_s = (call_s[self.call] * self.part)[known]
        return itself_s + weighted_count(self.post[known], waited_s, len(calls))

    def in_flight(self, posts: IntArray, seconds: FloatArray, nbytes: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean bytes and seconds of the calls that were under way together, of some posts: what is waited for first
        takes the time of those behind it; all ``[posts]``, and the result ``[times]``."""
        known = (self.post >= 0) & np.isin(self.post, posts)
        together = np.searchsorted(np.unique(self.call[known]), posts)
        _, together = np.unique(together, return_inverse=True)
        count = np.bincount(together)
        return weighted_count(together, nbytes, len(count)) / count, weighted_count(
            together, seconds, len(count)
        ) / count

    def at(self, here: BoolArray) -> IntArray:
        """The posts of what some calls post or wait for ``[calls]``, ascending."""
        posts = here & (self.timeline.calls.posts >= 0)
        known = (self.post >= 0) & here[self.call]
        posts[self.post[known]] = True
        return np.flatnonzero(posts)

    def gone(self, goes: BoolArray) -> tuple[BoolArray, BoolArray]:
        """Without some posts ``[calls]``: which pairs go ``[pairs]``; and which calls, those that wait for nothing else
        among them ``[calls]``."""
        calls = self.timeline.calls
        pairs = (self.post >= 0) & goes[self.post]
        left = weighted_count(self.call, (~pairs).astype(np.float64), len(calls))
        waits = np.diff(calls.wait_first) > 0
        return pairs, np.where(waits, (left == 0) & (goes | (calls.posts < 0)), goes)


def without_core_waits(vertices: IntArray, call_s: FloatArray, facts: Facts) -> float:
    """Which part of some seconds of the calls at some vertices is left without what threads wait for a core in them,
    on any rank: the others wait for it as well; ``call_s`` is ``[calls]``."""
    taken_s = float(call_s[np.isin(facts.timeline.calls.vertex, vertices)].sum()) / facts.timeline.ranks
    waited_s = float(facts.ppg.metrics["call_core_wait_s"][vertices].sum())
    return max(1.0 - waited_s / taken_s, 0.0) if taken_s > 0.0 else 0.0


def ways_between_ranks(posts: IntArray, timeline: Timeline) -> int:
    """How many ways from one rank to another some posts take that send or receive messages, of the rank that has most;
    1 where they are no messages."""
    calls, instances = timeline.calls, timeline.instances
    posts = posts[calls.posts[posts] >= 0]
    instance = calls.posts[posts]
    messages = np.isin(instances.operation[instance], MESSAGES) & (np.diff(instances.first)[instance] == 2)
    posts, first = posts[messages], instances.first[instance[messages]]
    sender, receiver = instances.members[first], instances.members[first + 1]
    partner = np.where(sender == posts, receiver, sender)
    ways = np.unique(np.stack((calls.location[posts], sender == posts, calls.location[partner])), axis=1)
    return int(np.bincount(ways[0]).max(initial=1))


def in_steps(facts: Facts) -> tuple[IntArray, IntArray]:
    """Calls by which main threads post something in steps of the steady state, and a number for each that is the same
    for all of one thread in one step ``[posts]``, ascending both."""
    calls, locations, steps = facts.timeline.calls, facts.timeline.locations, facts.steps
    if steps is None:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    posts = np.flatnonzero((calls.posts >= 0) & locations.is_main[calls.location])
    location, enter_s = calls.location[posts], calls.enter_s[posts]
    start_s, end_s = (times[steps.steady()] for times in steps.on_all_ranks())
    step = np.full(len(posts), -1, np.int64)
    for rank in range(start_s.shape[1]):
        mine = np.flatnonzero(locations.rank[location] == rank)
        at = np.searchsorted(start_s[:, rank], enter_s[mine], side="right") - 1
        step[mine] = np.where((at >= 0) & (enter_s[mine] < end_s[np.maximum(at, 0), rank]), at, -1)
    known = step >= 0
    return posts[known], (location.astype(np.int64) * len(start_s) + step)[known]
