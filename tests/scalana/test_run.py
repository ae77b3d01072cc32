"""``scalana run`` is transparent: output, input, signals and exit code are the job's own."""

from __future__ import annotations

import json
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def scalana(arguments: Sequence[str], cwd: Path, **options: object) -> subprocess.Popen[bytes]:
    """Start ``scalana`` in ``cwd``, from this checkout."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    env.pop("SCALANA_RUN_DIR", None)
    settings: dict[str, object] = {
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        **options,
    }
    return subprocess.Popen([sys.executable, "-m", "scalana", *arguments], cwd=cwd, env=env, **settings)  # type: ignore[call-overload,no-any-return]


def run(arguments: Sequence[str], cwd: Path, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run ``scalana`` to its end."""
    process = scalana(arguments, cwd, stdin=subprocess.PIPE)
    out, err = process.communicate(stdin, timeout=60)
    return subprocess.CompletedProcess(arguments, process.returncode, out, err)


def record(*command: str) -> list[str]:
    """The command line that records ``command`` and leaves the report away."""
    return ["run", "--no-report", "-o", "job", "--", *command]


def wait_for(path: Path) -> None:
    """Wait until the job says by a file that it is ready."""
    until = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < until, f"{path} did not appear"
        time.sleep(0.01)


@pytest.mark.parametrize("code", [0, 3, 255])
def test_exit_code_is_the_jobs(tmp_path: Path, code: int) -> None:
    assert run(record("sh", "-c", f"exit {code}"), tmp_path).returncode == code
    assert json.loads((tmp_path / "job" / "run.json").read_text())["exit_code"] == code


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_dies_as_the_job_died(tmp_path: Path, number: signal.Signals) -> None:
    result = run(record("sh", "-c", f"kill -{number.value} $$"), tmp_path)
    assert result.returncode == -number
    assert json.loads((tmp_path / "job" / "run.json").read_text())["exit_code"] == 128 + number


def test_a_shell_sees_128_and_the_signal(tmp_path: Path) -> None:
    job = f"{sys.executable} -m scalana run --no-report -- sh -c 'kill -9 $$'; echo $?"
    out = subprocess.run(
        ["sh", "-c", job], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, timeout=60
    )
    assert out.stdout.strip() == b"137"


def test_standard_output_is_identical(tmp_path: Path) -> None:
    job = "import sys; sys.stdout.buffer.write(bytes(range(256)) * 300)"
    result = run(record(sys.executable, "-c", job), tmp_path)
    assert result.stdout == bytes(range(256)) * 300


def test_standard_input_and_error_are_the_jobs(tmp_path: Path) -> None:
    result = run(record("sh", "-c", "cat; echo oops >&2"), tmp_path, stdin=b"one\ntwo")
    assert result.stdout == b"one\ntwo"
    assert result.stderr.startswith(b"oops\n")


def test_inherited_descriptors_stay_open(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    process = scalana(record("sh", "-c", f"echo through > /proc/self/fd/{writer}"), tmp_path, pass_fds=(writer,))
    os.close(writer)
    process.communicate(timeout=60)
    assert os.read(reader, 100) == b"through\n"
    os.close(reader)


def test_a_terminal_stays_a_terminal(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    process = scalana(record("sh", "-c", "test -t 0 && test -t 1 && echo tty"), tmp_path, stdin=theirs, stdout=theirs)
    _, err = process.communicate(timeout=60)
    os.close(theirs)
    assert select.select([ours], [], [], 5)[0], err
    assert os.read(ours, 100).strip() == b"tty"
    os.close(ours)


CATCHES = """\
import pathlib, signal, sys, time
def caught(number, frame):
    with open("caught", "a") as log:
        log.write(f"{number}\\n")
    time.sleep(0.3)
    sys.exit(40 + number)
signal.signal(signal.Signals[sys.argv[1]], caught)
pathlib.Path("ready").touch()
time.sleep(60)
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGQUIT"])
def test_signals_are_sent_on(tmp_path: Path, name: str) -> None:
    process = scalana(record(sys.executable, "-c", CATCHES, name), tmp_path, start_new_session=True)
    wait_for(tmp_path / "ready")
    process.send_signal(signal.Signals[name])
    process.communicate(timeout=60)
    assert process.returncode == 40 + signal.Signals[name]
    assert (tmp_path / "caught").read_text().split() == [str(int(signal.Signals[name]))]


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGUSR1"])
def test_signal_to_the_group_reaches_the_job_once(tmp_path: Path, name: str) -> None:
    process = scalana(record(sys.executable, "-c", CATCHES, name), tmp_path, start_new_session=True)
    wait_for(tmp_path / "ready")
    os.killpg(process.pid, signal.Signals[name])
    _, err = process.communicate(timeout=60)
    assert process.returncode == 40 + signal.Signals[name]
    assert (tmp_path / "caught").read_text().split() == [str(int(signal.Signals[name]))]
    assert b"recorded" in err and b"Traceback" not in err


@pytest.mark.slow
def test_jobs_that_were_stopped_for_long_go_on(tmp_path: Path) -> None:
    """Several, as what went wrong did so by chance."""
    jobs = []
    for name in map(str, range(10)):
        (tmp_path / name).mkdir()
        jobs.append(scalana(record("sh", "-c", "touch ready; exec sleep 6"), tmp_path / name, start_new_session=True))
    for number, job in enumerate(jobs):
        wait_for(tmp_path / str(number) / "ready")
        time.sleep(0.15)
        os.killpg(job.pid, signal.SIGSTOP)
    time.sleep(1.2)
    for job in jobs:
        os.killpg(job.pid, signal.SIGCONT)
    for job in jobs:
        _, err = job.communicate(timeout=60)
        assert job.returncode == 0, err


def test_who_ignores_the_end_of_children_is_told_of_the_jobs(tmp_path: Path) -> None:
    def ignore() -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)

    job = "import signal, sys; print(signal.getsignal(signal.SIGCHLD).name); sys.exit(3)"
    process = scalana(record(sys.executable, "-c", job), tmp_path, preexec_fn=ignore)
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (3, b"SIG_IGN\n")


@pytest.mark.parametrize("shell", ["sh", "bash"])
@pytest.mark.parametrize("ignored", ["", "PIPE", "XFSZ", "PIPE XFSZ INT QUIT HUP TERM USR1 USR2 CHLD TSTP ALRM"])
def test_the_job_ignores_what_it_would_ignore_without_us(tmp_path: Path, shell: str, ignored: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell}")
    trap = f"trap '' {ignored};" if ignored else ""
    job = "grep -E '^Sig(Ign|Blk|Cgt)' /proc/self/status"
    found = [
        subprocess.run(
            [shell, "-c", f"{trap} {words} {job}; exit"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            timeout=60,
        ).stdout
        for words in ("", f"{sys.executable} -m scalana run --no-report -o job --")
    ]
    assert found[0] == found[1] != b""


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams(tmp_path: Path, closed: str) -> None:
    job = "exec 9>found; for fd in 0 1 2; do test -e /proc/$$/fd/$fd && echo $fd >&9; done; exit 3"
    for name, words in (("bare", ""), ("run", f"{sys.executable} -m scalana run --format json -- ")):
        (tmp_path / name).mkdir()
        line = f"{words}sh -c '{job}' {closed}"
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        assert subprocess.run(["sh", "-c", line], cwd=tmp_path / name, env=env, timeout=60).returncode == 3
    assert (tmp_path / "run" / "found").read_text() == (tmp_path / "bare" / "found").read_text()


COUNTS = """\
import pathlib, signal, sys
seen = 0
def caught(number, frame):
    global seen
    seen += 1
    pathlib.Path(f"caught{seen}").touch()
    if seen == 3:
        sys.exit(0)
signal.signal(signal.SIGUSR1, caught)
pathlib.Path("ready").touch()
while True:
    signal.pause()
"""


def test_every_signal_counts_to_the_group_or_to_us(tmp_path: Path) -> None:
    process = scalana(record(sys.executable, "-c", COUNTS), tmp_path, start_new_session=True)
    wait_for(tmp_path / "ready")
    for number, send in enumerate((os.killpg, os.kill, os.killpg), 1):
        send(process.pid, signal.SIGUSR1)
        wait_for(tmp_path / f"caught{number}")
        time.sleep(0.2)
        assert not (tmp_path / f"caught{number + 1}").exists()
    process.communicate(timeout=60)
    assert process.returncode == 0


def test_nothing_is_left_when_we_are_killed(tmp_path: Path) -> None:
    process = scalana(record("sh", "-c", "touch ready; exec sleep 60"), tmp_path, start_new_session=True)
    wait_for(tmp_path / "ready")
    process.kill()
    process.wait(timeout=60)
    until = time.monotonic() + 10
    while (left := [command.split(b"\0")[0] for command in members(process.pid)]) != [b"sleep"]:
        assert time.monotonic() < until, left  # the job alone goes on, as it would
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)


def members(group: int) -> list[bytes]:
    """Command lines of the processes of a group."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if os.getpgid(int(entry.name)) == group:
                    found.append((entry / "cmdline").read_bytes())
            except OSError:
                continue
    return [command for command in found if command]


def test_interrupt_ends_us_as_it_ends_the_job(tmp_path: Path) -> None:
    process = scalana(record("sh", "-c", "touch ready; exec sleep 60"), tmp_path, start_new_session=True)
    wait_for(tmp_path / "ready")
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert b"Traceback" not in err


def test_ctrl_c_and_ctrl_backslash_on_a_terminal_reach_the_job_once(tmp_path: Path) -> None:
    for key, name in ((b"\x03", "SIGINT"), (b"\x1c", "SIGQUIT")):
        folder = tmp_path / name
        folder.mkdir()
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(folder)
            os.environ["PYTHONPATH"] = str(ROOT)
            job = [sys.executable, "-m", "scalana", *record(sys.executable, "-c", CATCHES, name)]
            os.execv(sys.executable, job)
        wait_for(folder / "ready")
        os.write(terminal, key)
        try:
            while os.read(terminal, 1000):
                pass
        except OSError:
            pass  # the other side is closed
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 40 + signal.Signals[name]
        os.close(terminal)
        assert (folder / "caught").read_text().split() == [str(int(signal.Signals[name]))]


def test_dispositions_of_the_job_are_the_defaults(tmp_path: Path) -> None:
    show = "grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status"
    bare = subprocess.run(["sh", "-c", show], capture_output=True, check=True).stdout
    assert run(record("sh", "-c", show), tmp_path).stdout == bare


def test_environment_tells_the_recorder(tmp_path: Path) -> None:
    job = "env"
    process = scalana(["run", "--no-report", "--rate", "50", "--", job], tmp_path)
    out, _ = process.communicate(timeout=60)
    env = dict(line.split("=", 1) for line in out.decode().splitlines() if "=" in line)
    (folder,) = tmp_path.glob("scalana-2*")
    assert env["SCALANA_RUN_DIR"] == str(folder) and env["SCALANA_RATE_HZ"] == "50"
    first, *others = env["PYTHONPATH"].split(os.pathsep)
    assert (Path(first) / "sitecustomize.py").is_file()
    assert others == [str(ROOT)]


def test_run_info(tmp_path: Path) -> None:
    run(record("sh", "-c", "sleep 0.2"), tmp_path)
    info = json.loads((tmp_path / "job" / "run.json").read_text())
    assert info["command"] == ["sh", "-c", "sleep 0.2"]
    assert info["cwd"] == str(tmp_path) and info["rate_hz"] == 200
    assert info["seconds"] >= 0.2


def test_never_writes_into_an_existing_run(tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    assert run(record("true"), tmp_path).returncode == 0  # an empty folder will do
    before = (tmp_path / "job" / "run.json").read_bytes()
    result = run(record("touch", "started"), tmp_path)
    assert result.returncode == 2
    assert b"job exists and is not" in result.stderr
    assert (tmp_path / "job" / "run.json").read_bytes() == before and not (tmp_path / "started").exists()


def test_command_not_found(tmp_path: Path) -> None:
    result = run(record("no-such-program"), tmp_path)
    assert result.returncode == 127
    assert result.stderr == b"scalana: no-such-program: command not found\n"
    assert not (tmp_path / "job").exists()


def test_command_not_executable(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print(1)")
    result = run(record("./train.py"), tmp_path)
    assert result.returncode == 126
    assert b"Permission denied" in result.stderr and b"python ./train.py" in result.stderr


def test_a_script_that_names_no_interpreter(tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text("echo $1; exit 4\n")
    (tmp_path / "job.sh").chmod(0o755)
    result = run(record("./job.sh", "one"), tmp_path)
    assert (result.returncode, result.stdout) == (4, b"one\n")
    (tmp_path / "no").write_bytes(b"\x7fELF\0\0")
    (tmp_path / "no").chmod(0o755)
    broken = run(["run", "-o", "other", "--", "./no"], tmp_path)
    assert broken.returncode == 126 and b"Exec format error" in broken.stderr


@pytest.mark.parametrize(
    "arguments",
    [["run"], ["run", "--"], ["run", "--rate", "0", "--", "true"], ["run", "--rate", "x", "--", "true"], ["rum"], []],
)
def test_usage_errors(tmp_path: Path, arguments: list[str]) -> None:
    result = run(arguments, tmp_path)
    assert result.returncode == 2 and result.stderr
    assert not list(tmp_path.iterdir())


def test_the_jobs_own_dashes(tmp_path: Path) -> None:
    for arguments in (["--", "echo", "-o", "a", "--", "b"], ["echo", "-o", "a", "--", "b"]):
        assert run(["run", "--no-report", *arguments], tmp_path).stdout == b"-o a -- b\n"


@pytest.mark.slow
def test_an_analysis_that_fails_does_not_fail_the_job(tmp_path: Path) -> None:
    job = "import glob; [open(f, 'wb').write(b'x' * 99) for f in glob.glob('job/records/*')]; import os; os._exit(5)"
    result = run(["run", "-o", "job", "--", sys.executable, "-c", job], tmp_path)
    assert result.returncode == 5
    lines = [line for line in result.stderr.splitlines() if line.startswith(b"scalana:")]
    assert len(lines) == 1 and b"job" in lines[0]
    assert b"Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("rank", "size", "command", "told"),
    [("0", "4", "true", True), ("1", "4", "true", False), ("0", "1", "true", False), ("0", "4", "torchrun", False)],
)
def test_behind_the_launcher_instead_of_before(
    tmp_path: Path, rank: str, size: str, command: str, told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("PMI_RANK", rank), ("PMI_SIZE", size)):
        monkeypatch.setenv(name, value)
    done = run(record("sh", "-c", f"exit 3 # {command}"), tmp_path)
    assert done.returncode == 3
    assert (b"put scalana run before the launcher" in done.stderr) == told


def test_says_why_nothing_was_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = run(["run", "-o", "a", "--", "true"], tmp_path)
    assert plain.returncode == 0 and b"nothing was recorded: true started no Python program" in plain.stderr
    unread = run(["run", "-o", "n", "--no-report", "--", "true"], tmp_path)
    assert b"nothing was recorded: true started" in unread.stderr and b"recorded; for the report" not in unread.stderr
    isolated = run(["run", "-o", "b", "--", sys.executable, "-I", "-c", "pass"], tmp_path)
    assert isolated.returncode == 0 and b"started with -I" in isolated.stderr
    launcher = tmp_path / "mpirun"
    launcher.write_text("#!/bin/sh\n")
    launcher.chmod(0o755)
    monkeypatch.setenv("PATH", "/nowhere")
    without = run(["run", "-o", "c", "--", str(launcher)], tmp_path)
    assert without.returncode == 0 and b"nothing was recorded: MPI calls are not recorded: no mpicc" in without.stderr
