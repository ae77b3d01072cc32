"""Durations, in seconds."""

SHORTEST_S = 1e-9
"""Seconds that an action takes at least, so that others can be divided by it.

Why: The resolution of the clocks.

- `diagnosis.causes`
- `even_work`
"""
SAME_TIME_S = 1e-6
"""Seconds below which two times are one.

Why: The resolution of many traces.

- `backtrack`: less than a rank is later is no lateness: the resolution of many traces
- `hangs`: difference below which two times are one
- `recorded`: by how much a call may lie outside of its action
- `replayable`: by how much a message may arrive before the last of its batch
- `lanes`: difference up to which a stretch of work ends with a kernel, or at a mark
- `unmarked`: by how much marked steps may take longer than others before marks are said to cost anything
"""
TINY_S = 2e-5
"""Seconds up to which an operator is too small to be compared with what the machine can do.

Why: Of the order of the launch of a kernel.

- `roofline`
- `device_rounds`: between two stretches of a host that are one call
"""
AT_ONCE_S = 0.0001
"""Seconds within which one event follows another at once.

Why: Clocks of two machines may differ by less, and the launch of a kernel takes less.

- `on_devices`: an idle device begins what its host launches within this time
- `sync_intervals`: seconds by which a member leaves an operation before another one comes to it, from which it did not
  wait for that one
- `timed_modules`: what lies between a module's end and the call that sends what it made
- `device_rounds`: work of a device that begins within this time after communication waited for that; what a host is
  seen to launch after it began to wait
"""
SHORT_GAP_S = 0.0002
"""Seconds up to which the usual gap of a device is that of a host that launches too slowly.

Why: A choice: waits for a loader, or for another rank, are longer.

- `late_devices`
- `device_rounds`: longest stretch of a host up to a launch that is launching
"""
NO_WORK_S = 0.001
"""Seconds of own work between two calls that are none.

Why: A program does some bookkeeping between calls; a stage computes for longer.

- `between_messages`: own work between two calls that is none
- `message_groups`: pause between messages up to which they can be parts of one
- `messages`: median action below which a program computes nothing
- `recorded_messages`: seconds within which a message is taken at once
- `streams`: usual action below which a side computes nothing
- `transfer_model`: most that a call takes whatever it moves, where calls of one size alone do not show it
"""
START_S = 0.2
"""Seconds by which a rank starts later than others because cores are busy.

Why: A choice: busy cores delay the start of a process by tenths of a second.

- `late_ranks`
"""
HANG_S = 1.0
"""Seconds that a call must be open to be a hang.

Why: What lasted less is how a job ends that is stopped.

- `hangs`
- `report.head`: where all that a rank may wait for has no record
"""
