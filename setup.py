"""Builds the one C extension. Everything else about the package stands in pyproject.toml.

Where the recorder cannot run, on systems other than Linux, and with ``SCALANA_PURE=1``, nothing is compiled: the wheel
has the analysis, which needs no extension, and fits any platform.

``SCALANA_WERROR=1`` turns warnings into errors, ``SCALANA_SANITIZE=address,undefined`` builds with sanitizers (run with
the sanitizer's library preloaded).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from setuptools import Extension, setup

SOURCES = Path("runtime/_core")

compile_args = [
    "-g0",  # debug information would be four fifths of a wheel
    "-std=gnu11",
    "-D_GNU_SOURCE=1",
    "-O2",
    "-fvisibility=hidden",
    "-Wall",
    "-Wextra",
    "-Wshadow",
    "-Wno-missing-field-initializers",
]
link_args = ["-pthread"]
if os.environ.get("SCALANA_WERROR") == "1":
    compile_args.append("-Werror")
if sanitizers := os.environ.get("SCALANA_SANITIZE"):
    compile_args += [
        f"-fsanitize={sanitizers}",
        "-fno-omit-frame-pointer",
        "-fno-sanitize-recover=undefined",
        "-g",
        "-O1",
    ]
    link_args.append(f"-fsanitize={sanitizers}")

pure = os.environ.get("SCALANA_PURE") == "1" or not sys.platform.startswith("linux")
extension = Extension(
    "scalana.runtime._core",
    sources=sorted(str(path) for path in SOURCES.rglob("*.c")),
    depends=sorted(str(path) for path in SOURCES.rglob("*.h")),
    include_dirs=[str(SOURCES)],
    extra_compile_args=compile_args,
    extra_link_args=link_args,
)
setup(ext_modules=[] if pure else [extension])
