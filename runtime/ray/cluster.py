"""How the environment of a recorded program comes to workers of Ray.

Workers of a cluster that the program starts inherit it. To those of a cluster that ran before it travels with the job's
``runtime_env``: as variables, and by a function that every worker calls at its start and that starts the recorder. What
the program has in its own ``runtime_env`` stays: variables are added, its function is called after ours.
"""

from __future__ import annotations

import os
import sys

from scalana.runtime import session
from scalana.runtime.ray.callers import PATCHES
from scalana.runtime.record import layout
from scalana.runtime.typed import Any, Function, Mapping

BOOTSTRAP = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bootstrap")
ADDRESS_VARIABLE = "RAY_ADDRESS"
PREFIX = "SCALANA_"
HOOK, VARIABLES, PATH = "worker_process_setup_hook", "env_vars", "PYTHONPATH"
START = """
def start_recording(bootstrap=None, then=None):
    try:
        import os
        file = os.path.join(bootstrap, "sitecustomize.py")
        if os.path.exists(file):
            with open(file, encoding="utf-8") as opened:
                exec(compile(opened.read(), file, "exec"), {"__file__": file, "__name__": "scalana_bootstrap"})
    except Exception:
        pass
    if isinstance(then, str):
        from ray._common.utils import load_class
        then = load_class(then)
    if then is not None:
        then()
"""
"""Travels to workers as it stands here: they may not be able to import anything of ours."""

MOST_S = 0.5
"""How long a driver waits for the list of hosts, which takes a millisecond: a cluster may be about to end."""

_hosts: list[str] = []
"""Other hosts that were noted."""

_joins = False
"""Whether the program connects to a cluster that ran before."""


def patch_worker(module: Any) -> None:
    """``module`` is ``ray._private.worker``."""
    PATCHES.wrap(module, "init", _connecting, "workers of clusters that ran before")
    PATCHES.wrap(module, "_maybe_modify_runtime_env", _modifying, "workers of clusters that ran before")
    PATCHES.surround(module, "disconnect", _leaving, _left, "hosts that joined a cluster late")


def patch_options(module: Any) -> None:
    """``module`` is ``ray.actor`` or ``ray.remote_function``: environments of single actors and tasks."""
    PATCHES.wrap(module, "parse_runtime_env_for_task_or_actor", _parsing, "actors with module paths of their own")


def _connecting(original: Function) -> Function:
    def init(address: Any = None, *args: Any, **kwargs: Any) -> Any:
        global _joins
        where = address or os.environ.get(ADDRESS_VARIABLE)
        _joins = bool(where) and where != "local"
        if session.core is not None and isinstance(where, str) and "://" in where:
            session.note("ray: with Ray's client, only the driver is recorded")
        context = original(address, *args, **kwargs)
        _note_hosts()
        return context

    return init


def _leaving(arguments: tuple[Any, ...]) -> None:
    _note_hosts()


def _left(state: None, arguments: tuple[Any, ...], result: Any, failure: type[BaseException] | None) -> None:
    """Nothing is known afterwards."""


def _note_hosts() -> None:
    """Leave in the run folder of a driver which other hosts its cluster has now: their records may stay there."""
    if session.core is not None:
        PATCHES.tried("hosts of the cluster", lambda: _ask_for_hosts(sys.modules["ray._private.worker"]))


def _ask_for_hosts(module: Any) -> None:
    worker = module.global_worker
    client = getattr(worker, "gcs_client", None)
    if client is None or worker.mode != module.SCRIPT_MODE:
        return
    here = os.uname().nodename
    nodes = client.get_all_node_info(timeout=MOST_S).values()
    found = [node.node_manager_hostname or node.node_manager_address for node in nodes if node.state == node.ALIVE]
    new = [host for host in dict.fromkeys(found) if host not in (here, *_hosts)]
    if new:
        _hosts.extend(new)
        layout.note_launch(session.run_folder, layout.process_name(here, os.getpid()), new)


def _modifying(original: Function) -> Function:
    def modify(*args: Any, **kwargs: Any) -> Any:
        environment = original(*args, **kwargs)
        if session.core is None:
            return environment
        try:
            return travelling(environment, session.run_folder) if _joins else with_bootstrap(environment)
        except Exception as failure:
            PATCHES.failed("the environment of workers", failure)
            return environment

    return modify


def _parsing(original: Function) -> Function:
    def parse(*args: Any, **kwargs: Any) -> Any:
        environment = original(*args, **kwargs)
        if session.core is None:
            return environment
        try:
            return with_bootstrap(environment)
        except Exception as failure:
            PATCHES.failed("the environment of an actor", failure)
            return environment

    return parse


def travelling(environment: Mapping[str, Any] | None, run_folder: str) -> dict[str, Any]:
    """A job's ``runtime_env`` with all that its workers need to be recorded into a run folder."""
    wanted = dict(environment or {})
    own = {name: value for name, value in os.environ.items() if name.startswith(PREFIX)}
    own.pop(session.PARENT_VARIABLE, None)
    own[layout.RUN_VARIABLE] = run_folder
    wanted[VARIABLES] = {**own, **(wanted.get(VARIABLES) or {})}
    wanted[HOOK] = _start_recording(wanted.get(HOOK))
    return wanted


def with_bootstrap(environment: Any) -> Any:
    """A ``runtime_env`` whose module path, if it has one of its own, leads to the recorder too."""
    variables = (environment or {}).get(VARIABLES) or {}
    path = variables.get(PATH)
    if path is None or BOOTSTRAP in path.split(os.pathsep):
        return environment
    # Of an actor it is an object of Ray's, made of what the program gave; of a job it may be the program's own.
    changed = dict(environment) if type(environment) is dict else environment
    changed[VARIABLES] = {**variables, PATH: f"{BOOTSTRAP}{os.pathsep}{path}" if path else BOOTSTRAP}
    return changed


def _start_recording(then: Any) -> Any:
    """What workers call at their start; ``then`` is what they would have called."""
    # Of no module that exists on a worker, so that it travels with its code.
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(START, space)
    function = space["start_recording"]
    function.__defaults__ = (BOOTSTRAP, then)
    return function
