"""Which part of a job a start is: by the options and variables of its launcher."""

from __future__ import annotations

import shlex
import socket

import pytest

from scalana.job import parts

SLURM = {
    "SLURM_JOB_ID": "77",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NUM_TASKS": "2",
    "SLURM_PROCID": "1",
    "SLURM_STEP_NODELIST": "node[03-04]",
}


def part(command: str, **environ: str) -> parts.Part:
    """The part that a command line is."""
    return parts.part_of(shlex.split(command), environ)


@pytest.mark.parametrize(
    "command",
    [
        "torchrun --standalone --nproc-per-node 4 train.py",
        "torchrun --nproc-per-node=4 train.py --nnodes 2",
        "python train.py",
        "python -m torch.distributed.run train.py",
        "mpirun -n 4 ./app",
        "srun --ntasks-per-node=1 torchrun --nnodes 2 --rdzv-backend c10d --rdzv-endpoint head:29500 train.py",
        "timeout 60 mpirun -n 2 python -m torch.distributed.run --nnodes 2 --master-addr head train.py",
        "srun -N2 accelerate launch --num_machines 2 --main_process_ip head train.py",
        "accelerate launch train.py",
    ],
)
def test_a_job_with_one_start_is_whole(command: str) -> None:
    assert part(command).is_whole


def test_torchrun_by_options() -> None:
    found = part("torchrun --nnodes=2 --node_rank 1 --master-addr host0 --master_port=1234 -m train --epochs 3")
    assert (found.index, found.count, found.head, found.is_whole) == (1, 2, "host0", False)
    other = part("env A=b python3.11 -m torch.distributed.run --nnodes 2 --master-addr host0 --master-port 1234 x.py")
    assert (other.job, other.index) == (found.job, 0)
    assert part("torchrun --nnodes 2 --master-addr host0 --master-port 1235 x.py").job != found.job


def test_torchrun_by_variables() -> None:
    found = part("torchrun train.py", PET_NNODES="4", PET_NODE_RANK="2", PET_MASTER_ADDR="a", PET_MASTER_PORT="1")
    assert (found.index, found.count, found.head) == (2, 4, "a")


def test_a_rendezvous_leaves_the_index_open() -> None:
    found = part("torchrun --nnodes 1:3 --rdzv-backend c10d --rdzv-id mine --rdzv-endpoint head:29400 t.py")
    assert (found.index, found.count, found.most, found.head) == (-1, 1, 3, "head")
    assert "mine" in found.label
    assert part("torchrun --nnodes 2 --rdzv-backend c10d --rdzv-endpoint head t.py").head == "head"


def test_the_first_host_may_call_itself_localhost() -> None:
    here = part("torchrun --nnodes 2 --master-addr localhost --master-port 1 t.py")
    there = part(f"torchrun --nnodes 2 --node-rank 1 --master-addr {socket.gethostname()} --master-port 1 t.py")
    assert here.job == there.job


def test_accelerate() -> None:
    found = part("accelerate launch --num_machines 2 --machine_rank 1 --main_process_ip=h --main_process_port 5 t.py")
    assert (found.index, found.count, found.head) == (1, 2, "h")


def test_tasks_of_slurm_are_parts_and_a_batch_script_is_none() -> None:
    found = part("python train.py", **SLURM)
    assert (found.index, found.count, found.head, found.label) == (1, 2, "node03", "slurm-77.0")
    assert part("python train.py", **SLURM, SLURM_RESTART_COUNT="1").job != found.job
    batch = {name: value for name, value in SLURM.items() if not name.startswith("SLURM_STEP")}
    assert part("srun python train.py", **batch, SLURM_NTASKS="2").is_whole


def test_torchrun_counts_before_the_step_around_it() -> None:
    found = part("torchrun --nnodes 2 --rdzv-backend c10d --rdzv-id 9 --rdzv-endpoint node03:1 t.py", **SLURM)
    assert found.job.startswith("torchrun 9")


def test_pods() -> None:
    pod = {"MASTER_ADDR": "job-master-0", "MASTER_PORT": "23456", "RANK": "1", "WORLD_SIZE": "2"}
    found = part("sh train.sh", **pod)
    assert (found.index, found.count, found.head) == (1, 2, "job-master-0")
    indexed = part("sh train.sh", JOB_COMPLETION_INDEX="3", HOSTNAME="train-3")
    assert (indexed.index, indexed.count, indexed.label) == (3, 0, "train")


def test_ranks_of_an_mpi_that_names_its_jobs() -> None:
    rank = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4"}
    assert part("./app", **rank, PMIX_NAMESPACE="prterun-1").index == 1
    assert part("./app", **rank).is_whole


def test_a_name_that_the_user_gives_joins_starts() -> None:
    found = parts.named_job("mine", parts.Part())
    assert not found.is_whole and found.label == "mine" and found.count == 0


def test_the_head_is_where_its_address_is() -> None:
    assert parts.is_here("127.0.0.1") and parts.is_here("localhost")
    assert not parts.is_here("192.0.2.1") and not parts.is_here("no.such.host.invalid")
    assert parts.Part("j", "j", -1, 2, 2, "127.0.0.1").is_head()
    assert parts.Part("j", "j", 1, 2, 2, "127.0.0.1").is_head() is False
    assert parts.Part("j", "j", -1, 2, 2).is_head() is None
