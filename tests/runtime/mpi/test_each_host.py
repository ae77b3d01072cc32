"""Ranks on hosts that may lack the recorder: which commands start them through a shell that looks first."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from scalana.runtime.mpi.each_host import guarded, hosts_named
from scalana.runtime.record import layout

WORDS = ["app", "-H", "mine"]


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """Of a job that preloads the recorder, with two programs in its path: one that says what it is started with."""
    for name in ("app", "other"):
        program = tmp_path / name
        program.write_text('#!/bin/sh\necho "$LD_PRELOAD $*"\n')
        program.chmod(0o755)
    return {"PATH": f"{tmp_path}{os.pathsep}{os.defpath}", "LD_PRELOAD": f"{tmp_path}/recorder.so:{tmp_path}/mine.so"}


def started(words: list[str], environ: dict[str, str]) -> str:
    """What a rank says that the launcher starts by the words behind its options."""
    done = subprocess.run(words, env=environ, capture_output=True, text=True, check=True)
    return done.stdout.strip()


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
def test_a_rank_preloads_the_recorder_if_its_host_has_it(
    tmp_path: Path, environ: dict[str, str], options: list[str]
) -> None:
    mine = f"{tmp_path}/mine.so"
    words, env = guarded(["mpirun", *options, *WORDS], environ, {"LD_PRELOAD": mine})
    assert words[: 1 + len(options)] == ["mpirun", *options]
    assert (env["LD_PRELOAD"], env[layout.PRELOAD_VARIABLE]) == (mine, f"{tmp_path}/recorder.so")
    rank, plain = words[1 + len(options) :], {name: value for name, value in env.items() if name != "LD_PRELOAD"}
    assert started(rank, plain) == "-H mine"
    recorder = tmp_path / "recorder.so"
    recorder.write_bytes(b"")
    assert started(rank, plain) == f"{recorder} -H mine"


def test_of_several_programs_each_is_started_so(environ: dict[str, str]) -> None:
    words, _ = guarded(["timeout", "9", "mpirun", "-H", "a,b", "app", ":", "-n", "1", "other"], environ, {})
    assert [words[at + 3] for at, word in enumerate(words) if word == "-c"] == ["app", "other"]
    assert words[:5] == ["timeout", "9", "mpirun", "-H", "a,b"] and words[-1] == "other"


@pytest.mark.parametrize(
    "words",
    [
        ["mpirun", "-n", "4", "app"],
        ["mpirun", "-H", "a,b", "--what-is-this", "app"],
        ["mpirun", "-H", "a,b", "-x", "LD_PRELOAD", "app"],
        ["mpirun", "-H", "a,b", "nowhere"],
        ["python", "-H", "a,b", "app"],
    ],
    ids=["one host", "unknown option", "handed on", "not found", "no launcher"],
)
def test_other_commands_stay_as_they_are(environ: dict[str, str], words: list[str]) -> None:
    assert guarded(words, environ, {}) == (words, environ)


def test_the_hosts_of_a_command_are_known(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("# ours\nnode1 slots=2\nnode2:4\n\n")
    assert hosts_named(["mpirun", "-f", str(tmp_path / "hosts"), "-n", "2", *WORDS]) == ["node1", "node2"]
    assert hosts_named(["torchrun", "-H", "a"]) == []
