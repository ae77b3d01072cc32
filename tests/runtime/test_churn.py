"""Threads and code that come and go while they are sampled: what is recorded fits together, nothing is corrupted."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from scalana.runtime import _core
from scalana.runtime.record.format import ProcessRecord

from .recording import build_core, recorded

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not _core.supported(), reason="the frames of this interpreter cannot be read"),
]

# Threads come and go, and code objects are made and freed as fast as it goes, while both the sampler and the calls look
# at them. What is recorded of a code object must fit together: its file, name and line say the same number.
CHURN = """
import gc, random
SECONDS = {seconds}
_core.start(RECORD, 1000, 1 << 30, flush_s=0.05)
stop = time.monotonic() + SECONDS
def worker(seed):
    rng = random.Random(seed)
    number = seed * 1_000_000
    for _ in range(rng.randrange(5, 60)):
        if time.monotonic() > stop:
            return
        number += 1
        line = number % 1000 + 1
        source = "\\n" * (line - 1) + (
            f"def gen_{{number}}(depth):\\n"
            "    if depth: return gen_%d(depth - 1)\\n"
            "    e = begin(2, 0, %d, -1, 0, 0, 1); end(e)\\n"
            "    return [x * x for x in range(%d)]\\n" % (number, number, rng.randrange(2000))
        )
        scope = {{"begin": _core.begin, "end": _core.end}}
        exec(compile(source, f"<gen-{{number}}>", "exec"), scope)
        scope[f"gen_{{number}}"](rng.randrange(30))
        del scope
        if number % 50 == 0:
            gc.collect()
seed = 0
threads = []
while time.monotonic() < stop:
    threads = [thread for thread in threads if thread.is_alive()]
    while len(threads) < 6:
        seed += 1
        threads.append(threading.Thread(target=worker, args=(seed,)))
        threads[-1].start()
    time.sleep(0.002)
for thread in threads:
    thread.join()
_core.stop(0)
"""


def check_churn(record: ProcessRecord) -> None:
    assert record.ended and record.troubles == []
    generated = 0
    for code in record.codes.values():
        if code.filename.startswith("<gen-") and code.name.startswith("gen_") and "." not in code.name:
            number = int(code.name[4:])
            assert code.filename == f"<gen-{number}>"
            assert code.first_line == number % 1000 + 1
            generated += 1
    assert generated > 50
    events = record.events
    for row in range(len(events)):
        frames = record.frames(events.path[row])
        assert frames[-1].code.name == f"gen_{events.seq[row]}"
        assert frames[-1].line == events.seq[row] % 1000 + 3
    samples = record.samples
    seen = 0
    for path in set(samples.path):
        frames = record.frames(path)
        inner = [frame for frame in frames if frame.code.name.startswith("gen_")]
        for frame in inner:
            assert frame.code.first_line <= frame.line <= frame.code.first_line + 3
        seen += bool(inner)
        names = {frame.code.name.split(".")[0] for frame in inner}
        assert len(names) <= 1, "a stack of one generated function holds no other"
    assert seen > 5


def test_threads_and_code_that_come_and_go(tmp_path: Path) -> None:
    check_churn(recorded(CHURN.format(seconds=4), tmp_path))


# A process that loses its core in the midst of reads, for times too short to be told from a read of much.
DAWDLE = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

ssize_t process_vm_readv(pid_t pid, const struct iovec *local, unsigned long count, const struct iovec *remote,
                         unsigned long remote_count, unsigned long flags)
{
    static ssize_t (*next)(pid_t, const struct iovec *, unsigned long, const struct iovec *, unsigned long,
                           unsigned long);
    static unsigned seed = 1;
    if (next == NULL) {
        next = dlsym(RTLD_NEXT, "process_vm_readv");
    }
    size_t bytes = 0;
    for (unsigned long i = 0; i < remote_count; i++) {
        bytes += remote[i].iov_len;
    }
    if (bytes > 4096 && rand_r(&seed) % 2) { /* the further parts of a stack */
        usleep(60); /* and what waking up takes */
    }
    return next(pid, local, count, remote, remote_count, flags);
}
"""


def test_a_sampler_that_loses_its_core_while_it_reads(tmp_path: Path) -> None:
    """What lies where it lay before, but is another thread's moment, is not taken for one stack."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    (tmp_path / "dawdle.c").write_text(DAWDLE)
    library = tmp_path / "dawdle.so"
    build = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(tmp_path / "dawdle.c"), "-ldl"]
    subprocess.run(build, check=True, timeout=60)
    check_churn(recorded(CHURN.format(seconds=4), tmp_path, environment={"LD_PRELOAD": str(library)}))


def test_threads_and_code_that_come_and_go_under_sanitizers(tmp_path: Path) -> None:
    """Churn for ``SCALANA_CHURN_SECONDS``, with the address and undefined-behaviour sanitizers watching."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs gcc's sanitizers")
    find = [compiler, "-print-file-name=libasan.so"]
    library = subprocess.run(find, capture_output=True, text=True).stdout.strip()
    if not os.path.isabs(library):
        pytest.skip("needs gcc's address sanitizer")
    core = build_core(tmp_path / "build", {"SCALANA_SANITIZE": "address,undefined"})
    seconds = int(os.environ.get("SCALANA_CHURN_SECONDS", "6"))
    record = recorded(
        CHURN.format(seconds=seconds),
        tmp_path,
        core=core,
        timeout_s=seconds * 3 + 60,
        environment={
            "LD_PRELOAD": library,
            "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1",
            "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
            "PYTHONMALLOC": "malloc",  # so that freed objects are poisoned
        },
    )
    check_churn(record)
