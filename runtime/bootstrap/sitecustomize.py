"""Start-up hook of a recorded job: hands over to the user's own ``sitecustomize``, then starts the recorder.

``scalana run`` puts this folder in front of ``PYTHONPATH``, so that every Python process of the job runs this file
before its program. The folder takes itself off ``sys.path`` of the running process (the environment keeps it, for the
processes that this one starts) and imports the next ``sitecustomize`` in its own place. Where there is none, the
import fails just as it would have failed without us, which ``site`` expects and ignores.
"""

import os
import sys


def _hand_over(here):
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != here]
    sys.path_importer_cache.pop(here, None)
    sys.modules.pop("sitecustomize", None)
    import sitecustomize  # noqa: F401 - the user's own, which takes our place in sys.modules


def _package(folders):
    """A light ``scalana`` whose own ``__init__`` runs only when something is asked of it."""
    folders = [folder for folder in folders if os.path.isdir(folder)]
    init = os.path.join(folders[0], "__init__.py")
    package = type(sys)("scalana")
    spec_type = type(sys.__spec__)
    spec = spec_type("scalana", None, origin=init, is_package=True)
    spec.submodule_search_locations[:] = folders
    package.__spec__ = spec
    package.__path__ = list(folders)
    package.__file__ = init
    package.__package__ = "scalana"

    def load():
        namespace = package.__dict__
        if namespace.pop("__getattr__", None) is not None:
            namespace.pop("__dir__", None)
            with open(init, encoding="utf-8") as file:
                exec(compile(file.read(), init, "exec", dont_inherit=True), namespace)

    def __getattr__(name):
        if name.startswith("__") and name not in ("__all__", "__version__"):
            raise AttributeError("module 'scalana' has no attribute " + repr(name))
        load()
        try:
            return package.__dict__[name]
        except KeyError:
            return getattr(package, name)

    def __dir__():
        load()
        return sorted(package.__dict__)

    package.__getattr__ = __getattr__
    package.__dir__ = __dir__
    return package


def _take(passed_on):
    """Sets the variables of a job that a launcher passes on as one."""
    for entry in passed_on.split(":"):
        name, _, value = entry.partition("=")
        os.environ[name] = os.fsdecode(bytes.fromhex(value))


def _start(here):
    runtime = os.path.dirname(here)
    parent = os.path.dirname(runtime)
    if "scalana" not in sys.modules:
        # In a checkout runtime/ stands beside scalana/, installed it stands inside.
        inside = os.path.basename(parent) == "scalana" and not os.path.isdir(os.path.join(parent, "scalana"))
        sys.modules["scalana"] = _package([parent] if inside else [os.path.join(parent, "scalana"), parent])
    from scalana.runtime import recorder

    recorder.start_from_environment()


_here = os.path.dirname(os.path.abspath(__file__))
try:
    if __name__ == "sitecustomize":  # workers of Ray run this later, by its file
        _hand_over(_here)
finally:
    try:
        if "PYTHON_SCALANA" in os.environ and not any(name.startswith("SCALANA_") for name in os.environ):
            _take(os.environ["PYTHON_SCALANA"])
        if os.environ.get("SCALANA_RUN_DIR"):
            _start(_here)
    except Exception:  # whatever went wrong with us is no business of the user's program
        pass
