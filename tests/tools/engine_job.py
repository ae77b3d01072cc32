"""A job of the pipeline engine of Megatron-core or DeepSpeed on the CPU whose stages take the time they are told to.

    python tests/tools/engine_job.py --engine megatron --chunks 2 --layers 2 --slow 3:1.5

Both libraries have to be importable (``make pipeline`` puts each into a folder below ``build/pipeline``), and for
DeepSpeed ``DS_ACCELERATOR`` has to be cpu. Run it on several ranks with torchrun or ``tests/tools/forked.py``. Layers
sleep as ``emulated.py`` says; a message carries when it was sent, by the same clock.

How layers are split over stages is told in the words of the engine: those options of Megatron's that have the same
names here, and ``--parts`` for where DeepSpeed's stages begin. Without them, ``--layers`` says it. With ``--case``,
several models are trained one after the other, each with options of its own beside the common ones.
"""

from __future__ import annotations

import argparse
import itertools
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from emulated import GARBAGE_S, MICROBATCH, SENT, TIME, WIDTH, Costs, Layer, add_costs, numbers, of_link, read_costs
from torch import nn


class AnyLayer(Layer):
    """A layer of any stage: the gradient of the first stage's input is made too, so that all cost the same."""

    def __init__(self, costs: Costs, stage: int, scale: float) -> None:
        super().__init__(costs, stage, scale, torch.float32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The input, later."""
        return super().forward(x if x.requires_grad else x.detach().requires_grad_())


class Batches(torch.utils.data.Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Microbatches; loading one takes as long as it is told to."""

    def __init__(self, costs: Costs) -> None:
        self.costs = costs
        self.data_s = sum(ms for which, ms in costs.options.data if which == costs.rank) / 1000

    def __len__(self) -> int:
        return int(self.costs.options.nmb)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        if index >= len(self):
            raise IndexError
        if self.data_s:
            self.costs.rest(self.data_s)
        batch = torch.zeros(1, WIDTH, dtype=torch.float64)
        batch[:, MICROBATCH] = index
        return batch, torch.zeros(1)


def loaded(costs: Costs) -> Iterator[Any]:
    """The microbatches of all steps, as a loader of torch gives them."""
    loader = torch.utils.data.DataLoader(Batches(costs), batch_size=None)
    return itertools.chain.from_iterable(itertools.repeat(loader))


def loss_of(y: torch.Tensor) -> torch.Tensor:
    """A loss whose gradients are zero, which leaves their first number free."""
    return (y * 0).sum().float()


class Wire:
    """What is planted in sending and receiving, outside of what an engine does for it."""

    def __init__(self, costs: Costs) -> None:
        self.take(costs)

    def take(self, costs: Costs) -> None:
        """The costs of the model that is trained now."""
        self.costs = costs
        self.host_s = sum(ms for which, ms in costs.options.host if which == costs.rank) / 1000

    def before(self) -> None:
        """What a slow host does before a message."""
        if self.host_s:
            self.costs.rest(self.host_s)

    def sends(self, tensor: torch.Tensor | None) -> None:
        """Write into a message when it was sent."""
        if carries_time(tensor):
            first = tensor.detach().view(-1)  # type: ignore[union-attr]
            first[TIME], first[SENT] = self.costs.now_s(), time.monotonic()

    def received(self, tensor: torch.Tensor | None, source: int, posted_s: float) -> None:
        """Wait as long as the link is slow, on which a message travels when it is sent and its receive posted."""
        latency_s = of_link(self.costs.options.latency, source, self.costs.rank)
        if latency_s and carries_time(tensor):
            first = tensor.detach().view(-1)  # type: ignore[union-attr]
            if abs(float(first[SENT]) - time.monotonic()) < GARBAGE_S:
                first[TIME] = max(float(first[SENT]), posted_s) + latency_s
                self.costs.wait_until(float(first[TIME]))


class Late:
    """Waits for a request, if there is one, and then as long as the link is slow."""

    def __init__(self, wire: Wire, tensor: torch.Tensor | None, source: int, work: Any = None) -> None:
        self.wire, self.tensor, self.source, self.work = wire, tensor, source, work
        self.posted_s = time.monotonic()

    def wait(self) -> None:
        """Wait."""
        if self.work is not None:
            self.work.wait()
        self.wire.received(self.tensor, self.source, self.posted_s)


def carries_time(tensor: torch.Tensor | None) -> bool:
    """Whether it is an activation or a gradient, and nothing that tells of these."""
    return tensor is not None and tensor.dtype is torch.float64 and tensor.numel() == WIDTH


# ---- Megatron-core ----


def without_cuda() -> None:
    """Let Megatron-core run where there is no device, for which it is not made."""
    zeros = torch.zeros
    torch.cuda.current_device = lambda: "cpu"  # type: ignore[assignment,return-value]
    torch.cuda.synchronize = lambda *_: None  # type: ignore[assignment]
    torch.zeros = lambda *size, **named: zeros(*size, **{**named, "device": "cpu"})  # type: ignore[assignment]


class Megatron:
    """Trains by its schedules; all models of a job have as many chunks a rank."""

    def __init__(self, chunks: int, wire: Wire) -> None:
        without_cuda()
        from megatron.core import parallel_state
        from megatron.core.pipeline_parallel import p2p_communication

        self.ranks, self.rank, self.chunks = dist.get_world_size(), dist.get_rank(), chunks
        self.virtual = chunks if chunks > 1 else None
        parallel_state.initialize_model_parallel(
            pipeline_model_parallel_size=self.ranks, virtual_pipeline_model_parallel_size=self.virtual
        )
        communicate = p2p_communication.P2PCommunicator._communicate

        def communicating(communicator: Any, **named: Any) -> Any:
            messages = "tensor_send_next", "tensor_send_prev", "recv_prev", "recv_next"
            if any(named[name] is not None and named[name] is not False for name in messages):
                wire.before()
            wire.sends(named["tensor_send_next"])
            wire.sends(named["tensor_send_prev"])
            return communicate(communicator, **named)

        p2p_communication.P2PCommunicator._communicate = communicating
        for name in ("_p2p_ops", "_batched_p2p_ops"):
            setattr(p2p_communication, name, self.posting(getattr(p2p_communication, name), wire))

    @staticmethod
    def posting(post: Callable[..., Any], wire: Wire) -> Callable[..., Any]:
        """The call that posts messages."""

        def posted(**named: Any) -> Any:
            works = post(**named)
            for request, tensor, source in (
                ("recv_prev", "tensor_recv_prev", "prev_pipeline_rank"),
                ("recv_next", "tensor_recv_next", "next_pipeline_rank"),
            ):
                if isinstance(works, list):
                    works.append(Late(wire, named[tensor], named[source]))
                elif request in works:
                    works[request] = Late(wire, named[tensor], named[source], works[request])
            return works

        return posted

    def config(self, options: argparse.Namespace, sizes: list[int]) -> Any:
        """The model's shape and its cut."""
        from megatron.core.distributed import finalize_model_grads
        from megatron.core.transformer import TransformerConfig

        return TransformerConfig(
            num_layers=options.num_layers or sum(sizes),
            hidden_size=WIDTH,
            num_attention_heads=1,
            use_cpu_initialization=True,
            pipeline_model_parallel_size=self.ranks,
            virtual_pipeline_model_parallel_size=self.virtual,
            num_layers_in_first_pipeline_stage=options.decoder_first_pipeline_num_layers,
            num_layers_in_last_pipeline_stage=options.decoder_last_pipeline_num_layers,
            account_for_embedding_in_pipeline_split=options.account_for_embedding_in_pipeline_split,
            account_for_loss_in_pipeline_split=options.account_for_loss_in_pipeline_split,
            pipeline_model_parallel_layout=options.pipeline_model_parallel_layout,
            pipeline_dtype=torch.float64,
            deallocate_pipeline_outputs=not options.overlap_p2p_comm,  # on gloo not both
            batch_p2p_comm=options.batch_p2p_comm,
            overlap_p2p_comm=options.overlap_p2p_comm,
            overlap_p2p_comm_warmup_flush=options.overlap_p2p_comm_warmup_flush,
            variable_seq_lengths=options.variable_seq_lengths,
            moe_token_dispatcher_type="alltoall",  # there are no experts, but the default wants equal lengths
            finalize_model_grads_func=finalize_model_grads,
        )

    def step(self, options: argparse.Namespace, costs: Costs) -> Callable[[], None]:
        """Make a model; what each step does."""
        from megatron.core.pipeline_parallel import schedules
        from megatron.core.transformer.transformer_block import get_num_layers_to_build

        stages = [chunk * self.ranks + self.rank for chunk in range(self.chunks)]
        sizes = [options.layers[stage % len(options.layers)] for stage in range(self.ranks * self.chunks)]
        config = self.config(options, sizes)
        counts = [sizes[stage] for stage in stages]
        if options.num_layers:
            counts = [get_num_layers_to_build(config, chunk if self.virtual else None, self.rank) for chunk in
                      range(self.chunks)]  # fmt: skip
        model = [Chunk(config, costs, stage, len(sizes), count) for stage, count in zip(stages, counts, strict=True)]
        for number, chunk in enumerate(model):
            chunk.vp_stage = number if self.virtual else None
        batches = [loaded(costs) for _ in model]
        parameters = [parameter for chunk in model for parameter in chunk.parameters()]
        optimizer = torch.optim.SGD(parameters or [torch.zeros(1)], lr=0.1)
        run = schedules.get_forward_backward_func()

        def one() -> None:
            run(
                forward_step_func=forward_step,
                data_iterator=batches if self.virtual else batches[0],
                model=model if self.virtual else model[0],
                num_microbatches=options.nmb,
                seq_length=1,
                micro_batch_size=1,
            )
            optimizer.step()
            optimizer.zero_grad()

        return one


class Chunk(nn.Module):
    """A stage for Megatron-core: a decoder, and in the last one a head."""

    share_embeddings_and_output_weights = pre_process = post_process = False

    def __init__(self, config: Any, costs: Costs, stage: int, stages: int, count: int) -> None:
        from megatron.core.enums import ModelType

        super().__init__()
        self.config, self.vp_stage, self.input = config, None, None
        self.model_type, self.ddp_config = ModelType.encoder_or_decoder, argparse.Namespace(use_megatron_fsdp=False)
        self.first, self.last = stage == 0, stage == stages - 1
        scale = 1 / costs.options.per_stage
        self.decoder = nn.Module()
        self.decoder.layers = nn.ModuleList(AnyLayer(costs, stage, scale) for _ in range(count))
        if self.last and costs.options.head:
            self.output_layer = AnyLayer(costs, stage, costs.options.head * scale)

    def finish_grad_sync(self, force_all_reduce: bool = False) -> None:
        """There are no replicas."""

    def set_input_tensor(self, tensor: Any) -> None:
        """What came from the stage before."""
        self.input = tensor[0] if isinstance(tensor, list) else tensor

    def forward(self, batch: torch.Tensor | None) -> torch.Tensor:
        """Through all layers."""
        x = batch if self.first else self.input
        x = x.view(1, WIDTH)
        for layer in self.decoder.layers:
            x = layer(x)
        x = self.output_layer(x) if hasattr(self, "output_layer") else x
        return x.view(1, 1, WIDTH).clone()  # Megatron-core frees what was sent, which no view may be


def forward_step(batches: Iterator[Any], model: Chunk) -> tuple[torch.Tensor, Callable[..., Any]]:
    """What a program tells Megatron-core to do in a forward: the first and the last stage load a microbatch."""
    batch = next(batches)[0] if model.first or model.last else None
    return model(batch), lambda y: (loss_of(y), {"loss": loss_of(y).detach()})


# ---- DeepSpeed ----


class DeepSpeed:
    """Trains by its pipeline engine."""

    def __init__(self, chunks: int, wire: Wire) -> None:
        import deepspeed
        from deepspeed.runtime.pipe import p2p, schedule
        from deepspeed.runtime.pipe.engine import PipelineEngine

        assert chunks == 1
        sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None  # type: ignore[attr-defined]  # is compiled
        deepspeed.init_distributed(dist_backend="gloo")
        send, receive = p2p.send, p2p.recv

        def sending(tensor: torch.Tensor, stage: int, *others: Any) -> Any:
            wire.sends(tensor)
            return send(tensor, stage, *others)

        def receiving(tensor: torch.Tensor, stage: int, *others: Any) -> Any:
            posted_s = time.monotonic()
            result = receive(tensor, stage, *others)
            wire.received(tensor, stage, posted_s)
            return result

        p2p.send, p2p.recv = sending, receiving
        table = PipelineEngine._INSTRUCTION_MAP
        for message in (schedule.SendActivation, schedule.SendGrad, schedule.RecvActivation, schedule.RecvGrad):
            table[message] = late(table[message], wire)

    def step(self, options: argparse.Namespace, costs: Costs) -> Callable[[], None]:
        """Make an engine; what each step does."""
        import deepspeed
        from deepspeed.pipe import LayerSpec, PipelineModule

        ranks, rank = dist.get_world_size(), dist.get_rank()
        sizes = [options.layers[stage % len(options.layers)] for stage in range(ranks)]
        scale = 1 / options.per_stage
        layers = [LayerSpec(AnyLayer, costs, rank, scale) for _ in range(sum(sizes))]
        layers += [LayerSpec(AnyLayer, costs, rank, options.head * scale)] if options.head else []
        parts = options.parts or [*itertools.accumulate([0, *sizes[:-1]]), len(layers)]

        class Model(PipelineModule):
            """Its stages begin where they are told to."""

            def _partition_layers(self, method: str = "uniform") -> None:
                self.parts = parts
                self._set_bounds(start=parts[rank], stop=parts[rank + 1])

        kind, method = (PipelineModule, options.partition_method) if options.partition_method else (Model, "uniform")
        model = kind(layers, num_stages=ranks, loss_fn=lambda y, _: loss_of(y), partition_method=method)
        settings = {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": options.nmb}
        settings["steps_per_print"] = 1_000_000
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=settings)
        batches = loaded(costs)
        return lambda: engine.train_batch(batches)


def late(instruction: Callable[..., Any], wire: Wire) -> Callable[..., Any]:
    """An instruction with what a slow host does before it."""

    def instruct(engine: Any, *args: Any, **named: Any) -> Any:
        wire.before()
        return instruction(engine, *args, **named)

    return instruct


ENGINES = {"megatron": Megatron, "deepspeed": DeepSpeed}


def parser() -> argparse.ArgumentParser:
    """The options."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--engine", choices=sorted(ENGINES), default="megatron")
    options.add_argument("--case", action="append", default=[], help="options of one of several models, in one text")
    options.add_argument("--nmb", type=int, default=8, help="microbatches")
    options.add_argument("--chunks", type=int, default=1, help="stages a rank (Megatron)")
    options.add_argument("--steps", type=int, default=4, help="steps after the first")
    add_costs(options)
    options.add_argument("--data", type=numbers, action="append", default=[], help="rank:ms for loading a microbatch")
    megatron = options.add_argument_group("Megatron-core")
    megatron.add_argument("--batch-p2p-comm", action="store_true", help="messages by batch_isend_irecv")
    megatron.add_argument("--overlap-p2p-comm", action="store_true", help="messages overlap with computing")
    megatron.add_argument("--overlap-p2p-comm-warmup-flush", action="store_true", help="and at both ends of a step")
    megatron.add_argument("--variable-seq-lengths", action="store_true", help="shapes are sent before each message")
    megatron.add_argument("--num-layers", type=int, help="of the decoder; split as the following say")
    megatron.add_argument("--decoder-first-pipeline-num-layers", type=int)
    megatron.add_argument("--decoder-last-pipeline-num-layers", type=int)
    megatron.add_argument("--account-for-embedding-in-pipeline-split", action="store_true")
    megatron.add_argument("--account-for-loss-in-pipeline-split", action="store_true")
    megatron.add_argument("--pipeline-model-parallel-layout")
    deepspeed = options.add_argument_group("DeepSpeed")
    deepspeed.add_argument("--parts", help="first layer of every stage, and the number of layers: 0,5,10,15,17")
    deepspeed.add_argument("--partition-method", help="one of DeepSpeed's")
    options.set_defaults(slack_ms=6.0, slow_replica=[])
    return options


def parse(arguments: list[str]) -> list[argparse.Namespace]:
    """The options of every model that is trained, one after the other."""
    every = parser()
    cases = [[*arguments, *shlex.split(case)] for case in every.parse_args(arguments).case] or [arguments]
    parsed = [every.parse_args(case) for case in cases]
    for options in parsed:
        read_costs(options)
        options.parts = [int(part) for part in options.parts.split(",")] if options.parts else None
    return parsed


def main() -> None:
    """Run the job on this rank."""
    cases = parse(sys.argv[1:])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    costs = [Costs(options, dist.get_rank()) for options in cases]
    wire = Wire(costs[0])
    engine = ENGINES[cases[0].engine](cases[0].chunks, wire)
    for options, own in zip(cases, costs, strict=True):
        wire.take(own)
        step = engine.step(options, own)
        for _ in range(options.steps + 1):
            step()
            dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
