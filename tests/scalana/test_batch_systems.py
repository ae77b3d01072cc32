"""The examples of docs/batch-systems.md: shells and parsers accept them, and their starts find each other."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from scalana.job.parts import Part, part_of

PAGE = Path(__file__).resolve().parents[2] / "docs" / "batch-systems.md"


def blocks(language: str) -> list[str]:
    """The blocks of code in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)


def recorded(words: list[str]) -> list[str]:
    """The command that ``scalana run`` is to record."""
    assert words[:2] == ["scalana", "run"]
    return words[words.index("--") + 1 :]


def manifest(kind: str) -> Any:
    """The example of a kind."""
    yaml = pytest.importorskip("yaml")
    (found,) = [one for one in map(yaml.safe_load, blocks("yaml")) if one["kind"] == kind]
    return found["spec"]


def container(template: Any) -> list[str]:
    """The words that a pod starts."""
    (found,) = template["spec"]["containers"]
    return [*found.get("command", []), *found.get("args", [])]


@pytest.mark.parametrize("script", blocks("bash"), ids=["torchrun", "mpirun"])
def test_a_batch_script_starts_its_whole_job(script: str) -> None:
    assert subprocess.run(["bash", "-n"], input=script, text=True).returncode == 0
    line = script.replace("\\\n", "").splitlines()[-1]
    variables = {"SLURM_JOB_ID": "7", "SLURM_NNODES": "2", "SLURM_NTASKS": "4"}
    assert part_of(recorded(shlex.split(line)[1:]), variables).is_whole


def test_the_pods_of_a_pytorchjob() -> None:
    def part(pod: int) -> Part:
        replica = replicas["Worker" if pod else "Master"]
        address = {"MASTER_ADDR": "train-master-0", "MASTER_PORT": "23456"}
        launch = {f"PET_{name}": value for name, value in address.items()} | {"PET_NNODES": "2"}
        variables = {**address, **launch, "RANK": str(pod), "WORLD_SIZE": "2", "PET_NODE_RANK": str(pod)}
        return part_of(recorded(container(replica["template"])), variables)

    replicas = manifest("PyTorchJob")["pytorchReplicaSpecs"]
    found = [part(pod) for pod in range(2)]
    assert [(one.index, one.count, one.head) for one in found] == [(0, 2, "train-master-0"), (1, 2, "train-master-0")]
    assert found[0].job == found[1].job


def test_the_pods_of_a_jobset(monkeypatch: pytest.MonkeyPatch) -> None:
    (job,) = manifest("JobSet")["replicatedJobs"]
    shell, option, line = container(job["template"]["spec"]["template"])
    assert (shell, option, line.split()[0]) == ("sh", "-c", "exec")
    found = []
    for pod in range(2):
        monkeypatch.setenv("JOB_COMPLETION_INDEX", str(pod))
        found.append(part_of(recorded(shlex.split(os.path.expandvars(line))[1:]), {}))
    assert [(one.index, one.count, one.head) for one in found] == [(n, 2, "train-workers-0-0.train") for n in range(2)]
    assert found[0].job == found[1].job


def test_a_rayjob_has_one_start_and_one_folder() -> None:
    spec = manifest("RayJob")
    words = shlex.split(spec["entrypoint"])
    assert part_of(recorded(words), {}).is_whole
    cluster = spec["rayClusterSpec"]
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        (mounted,) = group["template"]["spec"]["containers"][0]["volumeMounts"]
        assert words[words.index("-o") + 1].startswith(f"{mounted['mountPath']}/")
