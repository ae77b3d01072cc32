"""Builds the one C extension. Everything else about the package stands in pyproject.toml.

``SCALANA_WERROR=1`` turns warnings into errors, ``SCALANA_SANITIZE=address,undefined`` builds with sanitizers (run with
the sanitizer's library preloaded).
"""

from __future__ import annotations

import os
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

setup(
    ext_modules=[
        Extension(
            "scalana.runtime._core",
            sources=sorted(str(path) for path in SOURCES.rglob("*.c")),
            depends=sorted(str(path) for path in SOURCES.rglob("*.h")),
            include_dirs=[str(SOURCES)],
            extra_compile_args=compile_args,
            extra_link_args=link_args,
        )
    ]
)
