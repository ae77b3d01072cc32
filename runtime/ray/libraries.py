"""Ray's own libraries (Train, Data, Tune, Serve): which of their actors run what the program gives them, and which are
theirs alone."""

from __future__ import annotations

from _thread import _local

from scalana.runtime.typed import Any

DATA = "ray.data."
SERVE = "ray.serve."
LIBRARIES = "ray.dashboard.", "ray.train.", DATA, "ray.tune.", SERVE
"""What modules of their actors and tasks begin with."""
PARTS = {
    "RayTrainWorker": "trainer",
    "_WrappedExecutable": "Learner",  # what RLlib trains in
    "SplitCoordinator": "data coordinator",
    "ImplicitFunc": "trial",
}
"""Actors of theirs that have a part in the program, and what they are to people. All others are bookkeeping: they are
not recorded, and neither are calls of them."""
WITHOUT_CALLS = ("SplitCoordinator",)
"""Those of them that work in threads of their own: calls of them are not recorded, as they but ask whether there is
something."""
TASKS = {DATA: "data worker"}
"""What processes are to people that run tasks of a library; these are the program's own functions."""

_OPERATOR = "MapWorker("
"""What the class of an actor begins with that applies functions to data: behind it stands the operator."""
_REPLICA = "ServeReplica:"
"""What the class of a replica of a deployment begins with: behind it stand the application and the deployment."""

_thread = _local()
"""``is_own``: whether this thread was started by one of :data:`THREADS`."""
THREADS = DATA, SERVE
"""Libraries whose own threads hand on what the program waits for; that is told where the program does."""


def is_own(module: str, class_name: str) -> bool:
    """Whether an actor is a library's own.

    >>> is_own("ray.data._internal.stats", "_StatsActor"), is_own("ray.util.queue", "_QueueActor")
    (True, False)
    """
    return bool(class_name) and module.startswith(LIBRARIES) and not part_of(module, class_name)


def is_called(module: str, class_name: str) -> bool:
    """Whether calls of an actor, or of tasks, are recorded."""
    return not module.startswith(LIBRARIES) or not (is_own(module, class_name) or class_name in WITHOUT_CALLS)


def part_of(module: str, class_name: str) -> str:
    """What an actor or, without a class, a task of a library is to people; empty for what is not of any.

    >>> part_of("ray.train.v2._internal", "RayTrainWorker"), part_of("mine", "RayTrainWorker")
    ('trainer', '')
    >>> part_of("ray.data._internal", ""), part_of("ray.data._internal", "MapWorker(MapBatches(Crop))")
    ('data worker', 'MapBatches(Crop)')
    """
    if not module.startswith(LIBRARIES):
        return ""
    if not class_name:
        return next((part for library, part in TASKS.items() if module.startswith(library)), "")
    if class_name.startswith(_OPERATOR):
        return class_name.removeprefix(_OPERATOR).removesuffix(")")
    if class_name.startswith(_REPLICA):
        return class_name.rsplit(":", 1)[-1]
    return PARTS.get(class_name.rsplit(".", 1)[-1], "")


def in_own_thread() -> bool:
    """Whether this thread is a library's own."""
    known: bool | None = getattr(_thread, "is_own", None)
    if known is None:
        known = _thread.is_own = _started_by_library()
    return known


def _started_by_library() -> bool:
    import threading

    thread: Any = threading.current_thread()
    target = getattr(thread, "_target", None) or type(thread)
    return str(getattr(target, "__module__", "")).startswith(THREADS)
