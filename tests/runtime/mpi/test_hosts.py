"""Launchers that start ranks on hosts which may lack the recorder: they launch a shell that looks first."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from scalana.job.launch import started
from scalana.runtime.record import layout
from tests.installed import RUNTIME

BEGIN = """
#include "agent/hosts.h"
__attribute__((constructor)) static void begin(int count, char *const *words) { hosts_begin(count, words); }
"""
LAUNCHER = """
#include <stdio.h>
#include <stdlib.h>
int main(int count, char **words)
{
    const char *names[] = {"LD_PRELOAD", "SCALANA_PRELOAD", "OMPI_MCA_mca_base_env_list"};
    for (int i = 0; i < 3; i++) {
        printf("%s%c", getenv(names[i]) ? getenv(names[i]) : "", 0);
    }
    for (int i = 0; i < count; i++) {
        printf("%s%c", words[i], 0);
    }
}
"""
FORWARDED = "OMPI_MCA_mca_base_env_list"
SEEN_BY_ALL = "set SCALANA_CACHE to a folder that all hosts see"


@dataclass(frozen=True)
class Launched:
    """What a launcher is started with in the end."""

    preloads: str
    looks_for: str
    forwards: str
    words: list[str]


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a recorder that does nothing but this, a launcher that prints what it is started with, and two
    programs that print what they preload."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("tools")
    (folder / "begin.c").write_text(BEGIN)
    (folder / "launcher.c").write_text(LAUNCHER)
    strict = ["-D_GNU_SOURCE=1", "-Wall", "-Wextra", "-Werror", f"-I{RUNTIME / 'mpi'}", f"-I{RUNTIME / '_core'}"]
    sources = [str(folder / "begin.c"), str(RUNTIME / "mpi" / "agent" / "hosts.c")]
    library = [compiler, "-shared", "-fPIC", *strict, "-o", str(folder / "recorder.so"), *sources]
    subprocess.run(library, check=True)
    subprocess.run([compiler, "-o", str(folder / "mpirun"), str(folder / "launcher.c")], check=True)
    for name in ("srun", "launch"):
        os.link(folder / "mpirun", folder / name)
    for name in ("app", "other"):
        (folder / name).write_text('#!/bin/sh\necho "$LD_PRELOAD $*"\n')
        (folder / name).chmod(0o755)
    return folder


def launched(tools: Path, words: list[str], **variables: str) -> Launched:
    """Start a launcher as a script does that ``scalana run`` has started."""
    preloads = f"{tools}/recorder.so"
    environ = {"PATH": f"{tools}{os.pathsep}{os.defpath}", "LD_PRELOAD": preloads, **variables}
    program = words[0] if words[0] == "/usr/bin/env" else tools / Path(words[0]).name
    done = subprocess.run(words, executable=program, env=environ, capture_output=True, check=True)
    preloaded, looked_for, forwarded, *found = done.stdout.decode().split("\0")[:-1]
    assert not done.stderr
    return Launched(preloaded, looked_for, forwarded, found)


@pytest.mark.parametrize(
    "options",
    [
        ["-H", "node0:2,node1:2", "-n", "4"],
        ["--hostfile", "hosts", "--mca", "btl", "tcp,self", "--allow-run-as-root"],
        ["-launcher", "ssh", "-hosts", "node0,node1", "-genv", "A", "1"],
        ["--host=node0,node1", "-x", "MINE=1"],
    ],
    ids=["host", "hostfile", "hydra", "equals"],
)
def test_a_rank_preloads_the_recorder_if_its_host_has_it(tools: Path, tmp_path: Path, options: list[str]) -> None:
    found = launched(tools, ["mpirun", *options, "app", "-H", "mine"])
    assert found.words[: 1 + len(options)] == ["mpirun", *options]
    assert (found.preloads, found.looks_for) == ("", f"{tools}/recorder.so")
    recorder, rank = tmp_path / "elsewhere.so", found.words[1 + len(options) :]
    for has_it, preloads in ((False, ""), (True, str(recorder))):
        if has_it:
            shutil.copy(tools / "recorder.so", recorder)
        environ = {"PATH": f"{tools}{os.pathsep}{os.defpath}", layout.PRELOAD_VARIABLE: str(recorder)}
        done = subprocess.run(rank, env=environ, capture_output=True, text=True, check=True)
        assert (done.stdout, done.stderr) == (f"{preloads} -H mine\n", "")


@pytest.mark.parametrize(
    "options",
    [
        ["-n4", "-N", "2", "-lu", "--mpi=pmix", "--ntasks-per-node", "2", "--exclusive", "-K1"],
        ["--container-image=own/plugin", "--export=ALL,A=1", "-J", "mine", "-H", "--"],
    ],
    ids=["letters", "plugin"],
)
def test_srun_starts_a_program_as_slurm_does(tools: Path, tmp_path: Path, options: list[str]) -> None:
    """By its whole path, or in the working directory although that is not in PATH."""
    found = launched(tools, ["srun", *options, "app", "-H", "mine"])
    assert found.words[: 1 + len(options)] == ["srun", *options]
    assert (found.preloads, found.looks_for) == ("", f"{tools}/recorder.so")
    rank, work, run = found.words[1 + len(options) :], tmp_path / "work", tmp_path / "run"
    work.mkdir()
    layout.make_records(run)
    for folder, name in ((tools, f"{tools}/app"), (work, "./app")):
        if folder == work:
            (work / "app").write_text((tools / "app").read_text().replace("$LD_PRELOAD", "$0"))
            (work / "app").chmod(0o755)
        environ = {"PATH": f"{folder if folder == tools else run}{os.pathsep}{os.defpath}"}
        environ |= {layout.PRELOAD_VARIABLE: str(tmp_path / "not here"), layout.RUN_VARIABLE: str(run)}
        done = subprocess.run(rank, env=environ, cwd=work, capture_output=True, text=True, check=True)
        assert (done.stdout, done.stderr) == (f"{name if folder == work else ''} -H mine\n", "")
    (note,) = layout.notes(run)
    assert (
        note == f"MPI calls are not recorded on {os.uname().nodename}, which has no {tmp_path}/not here: " + SEEN_BY_ALL
    )


@pytest.mark.parametrize(
    ("variables", "options", "stays"),
    [
        ({}, ["--export=NONE"], True),
        ({}, ["--export", "PATH,HOME"], True),
        ({"SLURM_EXPORT_ENV": "NONE"}, [], True),
        ({"SLURM_EXPORT_ENV": "NONE"}, ["--export=ALL"], False),
        ({"SLURM_JOB_NUM_NODES": "1", "SLURM_JOB_NODELIST": os.uname().nodename.partition(".")[0]}, [], True),
        ({"SLURM_JOB_NUM_NODES": "1", "SLURM_JOB_NODELIST": "another"}, [], False),
    ],
    ids=["none", "some", "variable", "overridden", "this host", "another host"],
)
def test_srun_that_hands_on_nothing_or_stays_here_is_left_alone(
    tools: Path, variables: dict[str, str], options: list[str], stays: bool
) -> None:
    words = ["srun", *options, "-n", "2", "app"]
    found = launched(tools, words, **variables)
    assert (found.words == words, found.preloads == f"{tools}/recorder.so") == (stays, stays)


@pytest.mark.parametrize(
    ("options", "variables", "named"),
    [
        (["--multi-prog"], {}, "--multi-prog"),
        (["--bcast=/tmp/app"], {}, "--bcast"),
        ([], {"SLURM_BCAST": "/tmp/app"}, "SLURM_BCAST"),
        (["--what-is-this"], {}, "--what-is-this"),
    ],
)
def test_a_program_of_srun_that_is_no_word_of_its_own_preloads_nothing(
    tools: Path, tmp_path: Path, options: list[str], variables: dict[str, str], named: str
) -> None:
    words = ["srun", *options, "app", "arguments"]
    found = launched(tools, words, SCALANA_RUN_DIR=str(tmp_path), **variables)
    assert (found.words, found.preloads, found.looks_for) == (words, "", "")
    (note,) = layout.notes(tmp_path)
    assert named in note and "srun" in note


def test_what_starts_a_static_launcher_acts_in_its_place(tools: Path) -> None:
    static = tools / "static" / "mpirun"
    static.parent.mkdir()
    compiled = subprocess.run(["cc", "-static", "-o", str(static), str(tools / "launcher.c")], capture_output=True)
    if compiled.returncode:
        pytest.skip("no C library to link statically")
    words = [str(static), "-H", "a,b", "app"]
    assert started([*words], {"SCALANA_MPI_WRAPPERS": "here"}) == ["/usr/bin/env", *words]
    assert started([str(tools / "mpirun")], {"SCALANA_MPI_WRAPPERS": "here"}) == [str(tools / "mpirun")]
    found = launched(tools, ["/usr/bin/env", *words])
    assert found.words[:3] == words[:3] and found.words[-1] == "app" and found.words != words
    assert (found.preloads, found.looks_for) == ("", f"{tools}/recorder.so")


def test_of_several_programs_each_is_started_so(tools: Path) -> None:
    words = launched(tools, ["mpirun", "-H", "a,b", "app", ":", "-n", "1", "other"]).words
    assert [words[at + 3] for at, word in enumerate(words) if word == "-c"] == ["app", "other"]
    assert words[-1] == "other"


def test_what_the_user_preloads_stays(tools: Path) -> None:
    shutil.copy(tools / "recorder.so", tools / "mine.so")
    found = launched(tools, ["mpirun", "-H", "a", "app"], LD_PRELOAD=f"{tools}/recorder.so:{tools}/mine.so")
    assert (found.preloads, found.looks_for) == (f"{tools}/mine.so", f"{tools}/recorder.so")


@pytest.mark.parametrize(
    ("variables", "words", "is_guarded"),
    [
        ({}, ["mpirun", "-n", "4", "app", "-H", "mine"], False),
        ({}, ["mpirun", "-H", "a,b", "-x", "LD_PRELOAD", "app"], False),
        ({}, ["launch", "-H", "a,b", "app"], False),
        ({}, ["mpirun", "--what-is-this", "app", "-H", "mine"], False),
        ({"SLURM_JOB_NUM_NODES": "1"}, ["mpirun", "app"], False),
        ({"SLURM_JOB_NUM_NODES": "2"}, ["mpirun", "app"], True),
        ({"PBS_NODEFILE": "/nodes"}, ["mpirun", "-np", "4", "./app"], False),
    ],
    ids=["one host", "user's", "no launcher", "its program's", "one node", "two nodes", "no program"],
)
def test_others_stay_as_they_are(tools: Path, variables: dict[str, str], words: list[str], is_guarded: bool) -> None:
    found = launched(tools, words, **variables)
    assert (found.words != words) == is_guarded


@pytest.mark.parametrize("name", ["LD_PRELOAD", "LD_PRELOAD=/old.so"])
def test_open_mpi_forwards_what_is_looked_for(tools: Path, name: str) -> None:
    """It ends a job whose list names a variable that is not there."""
    found = launched(tools, ["mpirun", "-H", "a", "app"], **{FORWARDED: f"MINE;{name};SCALANA_RUN_DIR"})
    assert found.forwards == f"MINE;SCALANA_PRELOAD={tools}/recorder.so;SCALANA_RUN_DIR"


@pytest.mark.parametrize("option", [["--what-is-this"], ["--what-is-this", "3"], ["--what-is-this", "./3", "-n", "4"]])
def test_words_that_are_not_understood_preload_nothing_and_are_named(
    tools: Path, tmp_path: Path, option: list[str]
) -> None:
    words = ["mpirun", *option, "-H", "node7,node8:2", "app"]
    found = launched(tools, words, SCALANA_RUN_DIR=str(tmp_path), **{FORWARDED: "MINE;LD_PRELOAD"})
    assert (found.words, found.preloads, found.looks_for, found.forwards) == (words, "", "", "MINE")
    (note,) = layout.notes(tmp_path)
    assert "--what-is-this" in note and "not recorded" in note
    assert layout.launched_hosts(tmp_path) == ["node7", "node8"]


def test_the_hosts_of_a_launch_are_left_in_the_run_folder(tools: Path, tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text(f"# ours\nnode1 slots=2\n node2:4\n\nlocalhost\n{os.uname().nodename}\n")
    launched(tools, ["mpirun", "-f", str(tmp_path / "hosts"), "-n", "2", "app"], SCALANA_RUN_DIR=str(tmp_path))
    assert layout.launched_hosts(tmp_path) == ["node1", "node2"]
