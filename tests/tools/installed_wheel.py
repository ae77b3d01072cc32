"""Whether an installed recorder works, where nothing but it is installed: records a job, and reads that back.

A program of its own, for environments without the packages of the tests::

    python installed_wheel.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

JOB = """\
import scalana

for _ in range(3):
    with scalana.span("piece"):
        sum(range(10**6))
    scalana.step()
"""


def main() -> None:
    """Raises what is wrong."""
    from scalana.runtime import _core
    from scalana.runtime.record.format import ProcessRecord
    from scalana.runtime.record.layout import record_files

    with tempfile.TemporaryDirectory() as work:
        Path(work, "job.py").write_text(JOB)
        words = [sys.executable, "-m", "scalana", "run", "--no-report", "-o", "run", "--", sys.executable, "job.py"]
        done = subprocess.run(words, cwd=work, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        (file,) = record_files(os.path.join(work, "run"))
        record = ProcessRecord.read(file)
    assert record.ended and record.troubles == []
    assert [record.names[name] for name in record.spans.name].count("piece") == 3
    assert len(record.samples) > 0 or not _core.supported(), "no samples"
    size = os.path.getsize(str(_core.__file__))
    print(f"{sys.version.split()[0]}: {len(record.samples)} samples; extension of {size} bytes")


if __name__ == "__main__":
    main()
