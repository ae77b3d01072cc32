"""The command line in this process: what a process of its own would do, without its start."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
from pathlib import Path

from scalana.cli import main

ROOT = Path(__file__).resolve().parents[2]


def command(*arguments: str | Path, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run ``scalana`` in a folder, with streams that are no terminal."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    before = os.getcwd()
    os.chdir(cwd)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main([str(word) for word in arguments])
    except SystemExit as left:  # of the parser
        code = left.code if isinstance(left.code, int) else 1
    finally:
        os.chdir(before)
    said = [stream.buffer.getvalue().decode("utf-8") for stream in (out, err)]  # type: ignore[attr-defined]
    return subprocess.CompletedProcess(arguments, code, *said)
