"""What ``srun`` hands on to nodes that may not have it."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalana.runtime.mpi.all_nodes import warning

MOUNTS = "disk / ext4 rw 0 0\nserver:/home /home nfs4 rw 0 0\nnone /home/scratch tmpfs rw 0 0\nshort row\n"


@pytest.mark.parametrize(
    ("folder", "words", "nodes", "warns"),
    [
        ("/var/cache/me", ["srun", "-n", "4", "./app"], "2", True),
        ("/var/cache/me", ["srun", "-N2", "./app"], "", True),
        ("/var/cache/me", ["srun", "--nodes=2", "./app"], "1", True),
        ("/var/cache/me", ["sh", "-c", "srun ./app"], "2", True),
        ("/home/scratch/me", ["srun", "./app"], "2", True),
        ("/home/me/.cache", ["srun", "./app"], "2", False),
        ("/var/cache/me", ["srun", "./app"], "1", False),
        ("/var/cache/me", ["srun", "./app"], "", False),
        ("/var/cache/me", ["mpirun", "./app"], "2", False),
    ],
)
def test_nodes_that_lack_the_recorder(tmp_path: Path, folder: str, words: list[str], nodes: str, warns: bool) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(MOUNTS)
    said = warning(words, {"PATH": "", "SLURM_JOB_NUM_NODES": nodes}, folder, str(mounts))
    assert (folder in said and "SCALANA_CACHE" in said) == warns and bool(said) == warns


def test_without_a_table_of_mounts_nothing_is_said(tmp_path: Path) -> None:
    assert warning(["srun", "-N", "2", "./app"], {"PATH": ""}, "/var", str(tmp_path / "none")) == ""
