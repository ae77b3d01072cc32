"""What is compiled for the torch at hand: kernels in front of its communication operators, and a counter of operators.

The kernels record calls without the interpreter, and so at a fraction of the cost of the kernels in Python
(:mod:`scalana.runtime.torch.comm`), which are left with what those pass on. What is recorded is the same. A process
that would have liked to have them says so in a file beside where they would be, and
:mod:`scalana.runtime.torch.build` compiles what is wanted.
"""

from __future__ import annotations

import ctypes
import os
import sys
import zlib

from scalana.runtime import session, user_cache
from scalana.runtime.typed import Any, Sequence

SOURCES = tuple(
    os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "_core", "torch", name)
    for name in ("kernels.cpp", "operators.cpp", "api.h")
)
SWITCH = "SCALANA_TORCH_KERNELS"
"""Variable that forbids them with ``0``."""


class Operator(ctypes.Structure):
    """``scalana_torch_operator`` of _core/torch/api.h."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("operation", ctypes.c_uint32),
        ("group", ctypes.c_int32),
        ("payload", ctypes.c_int32),
        ("result", ctypes.c_int32),
        ("peer", ctypes.c_int32),
        ("tag", ctypes.c_int32),
        ("async_", ctypes.c_int32),
        ("message", ctypes.c_bool),
        ("any_source", ctypes.c_bool),
        ("has_work", ctypes.c_bool),
    ]


def library_path(folder: str, torch_folder: str, version: str, abi: int) -> str:
    """File of the kernels for one installation of torch: another one, or other sources of ours, is another file."""
    status = os.stat(os.path.join(torch_folder, "lib", "libtorch_cpu.so"))
    mark = zlib.crc32(f"{torch_folder} {status.st_size} {status.st_mtime_ns} {abi}".encode("utf-8", "surrogateescape"))
    for source in SOURCES:
        with open(source, "rb") as file:
            mark = zlib.crc32(file.read(), mark)
    return os.path.join(folder, f"{version}-{mark:08x}.so")


def wanted_library(torch: Any) -> str:
    """File of what is compiled for this torch; asked for, and "" as long as there is none, or where somebody else could
    have changed it."""
    torch_folder = os.path.dirname(torch.__file__)
    folder = user_cache.folder_of(user_cache.TORCH, os.environ)
    path = library_path(folder, torch_folder, torch.__version__, int(torch._C._GLIBCXX_USE_CXX11_ABI))
    trouble = user_cache.distrust(path, os.environ)
    if trouble:
        session.note(f"torch: kernels in C++ are not used, since the cache is not safe to load from: {trouble}")
        return ""
    if os.path.exists(path):
        return path
    user_cache.want(path, torch_folder)
    return ""


def operators_library(torch: Any) -> Any:
    """What counts operators (torch_operators.cpp), None while it is not compiled, or is forbidden."""
    if os.environ.get(SWITCH) == "0":
        return None
    try:
        path = wanted_library(torch)
        # Its calls take less than it would to let another thread have the interpreter meanwhile.
        library = ctypes.PyDLL(path) if path else None
        if library is not None:
            library.scalana_operators_take.restype = ctypes.c_void_p
            library.scalana_operators_free.argtypes = [ctypes.c_void_p]
    except (OSError, AttributeError):
        return None
    return library


def attach(torch: Any, core: Any, c10d: Any, operators: Sequence[Operator]) -> bool:
    """Have these operators recorded by kernels in C++ from now on, if there are any."""
    if os.environ.get(SWITCH) == "0" or not core.supported() or not operators:
        return False
    path = wanted_library(torch)
    try:
        library = ctypes.CDLL(path) if path else None
    except OSError:
        library = None
    if library is None:
        return False
    functions = [_innermost(getattr(c10d, name, None)) for name in ("send", "recv")]
    codes = tuple(function.__code__ for function in functions if hasattr(function, "__code__"))
    table = (Operator * len(operators))(*operators)
    autograd = tuple(
        vars(module) for name, module in list(sys.modules.items()) if f"{name}.".startswith("torch.autograd.")
    )
    api = core.torch_api(vars(c10d), codes, autograd)
    _kept.append((vars(c10d), codes, autograd, table, library))
    done: int = library.scalana_torch_attach(ctypes.c_void_p(api), table, len(operators))
    core.meta("torch_kernels", str(done))
    return done > 0


def detach() -> None:
    """Have them record nothing any more."""
    if _kept:
        _kept[-1][-1].scalana_torch_detach()


_kept: list[Any] = []
"""What the kernels hold addresses of."""


def _innermost(function: Any) -> Any:
    """The function itself, below its decorators."""
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return function
