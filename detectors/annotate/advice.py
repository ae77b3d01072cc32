"""What to do about a finding, by what annotators know of it."""

from __future__ import annotations

GROWS = (
    "The cost grows with the steps: look for data that accumulates and is processed again in each step; process only "
    "what is new, or keep less."
)
"""About a cost that rises from step to step."""
BEGAN = (
    "The cost is higher from step {step} on: check what began then, in the program or outside (another program, a "
    "lower core clock)."
)
"""About one that rises at once."""
LOADING = {
    False: "The rank loads its data itself: DataLoader workers (num_workers) would load ahead.",
    True: "More DataLoader workers, or more batches ahead (prefetch_factor), would hide delays that do not occur in "
    "every batch.",
}
"""What a loader offers, by whether it has workers."""
COMPILING = (
    "Changing input sizes cause recompilation: mark these sizes as dynamic (torch._dynamo.mark_dynamic, or "
    "dynamic=True), or pad inputs to few sizes. TORCH_LOGS=recompiles shows each reason; past "
    "torch._dynamo.config.recompile_limit, code runs uncompiled."
)
"""About code that is compiled again."""
SERIALISING = {
    "arguments": "Each call pickles its arguments again: hand over large objects once (initializer= of the pool, or a "
    "global variable before a fork), put arrays into shared memory, or submit fewer calls with more work in each.",
    "result": "The calls return much: reduce it in the workers, or put large arrays into shared memory.",
    "message": "Send less through pickle: arrays in shared memory, raw bytes (send_bytes), or only what changes.",
    "requests": "One process answers all requests to a Manager: work on objects of the process itself and hand over "
    "the result once, ask for more at once (update, a slice), or share memory (multiprocessing.Array).",
    "object": "Lower-case methods of mpi4py pickle objects: send arrays with upper-case ones (Send, Bcast, Gather).",
}
"""About pickling, by what is pickled."""
FIRST_UNPICKLED = (
    "One object takes most of this, as a process imports the modules of the first object of a kind: import them in the "
    "initializer of the workers, or before these are forked, and keep the workers."
)
"""About unpickling where one object in each process takes most of the time."""
SERVERS = (
    "Requests to the server come late, or the server is slow: send them earlier or in batches, and start the server "
    "under scalana run, too, to see its slow lines."
)
"""About waiting for servers without a record."""
