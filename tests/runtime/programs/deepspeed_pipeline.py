"""Trains two small models by the pipeline engine of DeepSpeed on the CPU: all stages of the first are alike, the second
has a head at its end, which costs as much as a stage.

Argument: milliseconds that a layer takes. Prints losses and parameters of each step to the last bit, of every rank, in
the last line. ``DS_ACCELERATOR`` has to be cpu.
"""

import hashlib
import json
import sys
import warnings

warnings.simplefilter("ignore")

import deepspeed  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from deepspeed.pipe import LayerSpec, PipelineModule  # noqa: E402
from pausing import Head, Layer  # noqa: E402

sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None  # which would be compiled
SAMPLES, WIDTH, MICROBATCHES, STEPS, LAYERS = 2, 8, 6, 4, 4
seconds = float(sys.argv[1]) / 1000
torch.set_num_threads(1)
deepspeed.init_distributed(dist_backend="gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()


def batches(seed):
    torch.manual_seed(seed)
    for _ in range(MICROBATCHES):
        yield torch.randn(SAMPLES, WIDTH), torch.randn(SAMPLES, WIDTH)


def bits(tensors):
    return hashlib.sha256(b"".join(tensor.detach().numpy().tobytes() for tensor in tensors)).hexdigest()[:16]


def trained(*head):
    layers = [LayerSpec(Layer, WIDTH, seconds) for _ in range(LAYERS * ranks)]
    torch.manual_seed(rank)
    model = PipelineModule(
        [*layers, *head], num_stages=ranks, loss_fn=torch.nn.MSELoss(), partition_method="type:Layer"
    )
    settings = {"train_micro_batch_size_per_gpu": SAMPLES, "gradient_accumulation_steps": MICROBATCHES}
    settings["steps_per_print"] = 1_000_000
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=settings)
    results = []
    for step in range(STEPS - 1):
        loss = engine.train_batch(batches(step))
        results.append([bits([loss]), bits(model.parameters())])
    results.append([bits([engine.eval_batch(batches(STEPS))])])
    return results


results = [trained(), trained(LayerSpec(Head, WIDTH, LAYERS * seconds))]
text = [None] * ranks
dist.all_gather_object(text, results)
if rank == 0:
    print(json.dumps(text), flush=True)
dist.destroy_process_group()
