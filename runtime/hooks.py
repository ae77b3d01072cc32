"""What is recorded of which library: one row for each module that a recorder waits for.

A recorder is loaded once its module has been imported, so that a program that never imports torch never loads what
knows about torch.
"""

from __future__ import annotations

from scalana.runtime.import_hooks import when_imported
from scalana.runtime.remote import libraries
from scalana.runtime.typed import Any, Callable

HOOKS = (
    ("torch.distributed.distributed_c10d", "scalana.runtime.torch.init", "patch"),
    ("torch.distributed.distributed_c10d", "scalana.runtime.remote.pickles", "patch_torch"),
    ("torch.distributed.launcher.api", "scalana.runtime.torch.launcher", "launcher_imported"),
    ("torch.optim.optimizer", "scalana.runtime.torch.optimizers", "record_steps"),
    ("torch.optim.optimizer", "scalana.runtime.steps", "mark_optimizer_steps"),
    ("torch.autograd.profiler", "scalana.runtime.device.windows", "watch_steps"),
    ("torch.utils.data.dataloader", "scalana.runtime.torch.loaders", "record_loading"),
    ("torch.utils.data._utils.fetch", "scalana.runtime.torch.sources.loads", "record_sources"),
    ("datasets.iterable_dataset", "scalana.runtime.torch.sources.loads", "record_interleaved"),
    ("torch.serialization", "scalana.runtime.checkpoints", "record_files"),
    ("torch.serialization", "scalana.runtime.torch.experts.loads", "watch_files"),
    ("safetensors.torch", "scalana.runtime.torch.experts.loads", "watch_safetensors_torch"),
    ("safetensors", "scalana.runtime.torch.experts.loads", "watch_safetensors"),
    ("torch", "scalana.runtime.torch.experts.loads", "watch_buffers"),
    ("torch.nn.modules.module", "scalana.runtime.torch.experts.copies", "watch"),
    ("torch.distributed.checkpoint.state_dict_saver", "scalana.runtime.checkpoints", "record_saving"),
    ("torch.distributed.checkpoint.state_dict_loader", "scalana.runtime.checkpoints", "record_loading"),
    ("torch.nn.modules.module", "scalana.runtime.torch.modules", "time_modules"),
    ("torch.nn.modules.module", "scalana.runtime.torch.sequences.generation", "watch"),
    ("torch._dynamo.eval_frame", "scalana.runtime.torch.modules", "watch_compiled"),
    ("torch._dynamo.eval_frame", "scalana.runtime.torch.sequences.generation", "leave_compiled_alone"),
    ("torch._dynamo.output_graph", "scalana.runtime.torch.compiled_graphs", "watch_graphs"),
    ("torch._dynamo.trace_rules", "scalana.runtime.torch.compiled_graphs", "leave_recorder_out"),
    ("torch._inductor.debug", "scalana.runtime.torch.compiled_kernels", "watch_kernels"),
    ("torch._inductor.codecache", "scalana.runtime.torch.compiled_kernels", "watch_wrappers"),
    ("torch._dynamo.callback", "scalana.runtime.torch.modules", "watch_compilation"),
    ("torch._dynamo.callback", "scalana.runtime.torch.sequences.generation", "watch_compilation"),
    ("torch._dynamo.callback", "scalana.runtime.torch.experts.copies", "watch_compilation"),
    ("torch._dynamo.eval_frame", "scalana.runtime.torch.experts.copies", "leave_compiled_alone"),
    ("torch._dynamo.callback", "scalana.runtime.torch.compiling", "record_compilation"),
    ("torch.distributed.pipelining.stage", "scalana.runtime.pipeline.torch_pipelining", "patch_stage"),
    ("torch.distributed.pipelining.schedules", "scalana.runtime.pipeline.torch_pipelining", "patch_schedules"),
    ("megatron.core.pipeline_parallel.schedules", "scalana.runtime.pipeline.megatron", "patch_schedules"),
    ("megatron.core.pipeline_parallel.p2p_communication", "scalana.runtime.pipeline.megatron", "patch_messages"),
    ("megatron.core.distributed.finalize_model_grads", "scalana.runtime.pipeline.megatron", "patch_gradients"),
    ("deepspeed.runtime.pipe.engine", "scalana.runtime.pipeline.deepspeed", "patch_engine"),
    ("trl.extras.profiling", "scalana.runtime.rl.timers", "mark_timers"),
    ("trl.trainer.grpo_trainer", "scalana.runtime.rl.trl", "mark_trainers"),
    ("trl.trainer.rloo_trainer", "scalana.runtime.rl.trl", "mark_trainers"),
    ("subprocess", "scalana.runtime.starts", "patch"),
    ("concurrent.futures._base", "scalana.runtime.remote.futures", "patch_waits"),
    ("concurrent.futures.thread", "scalana.runtime.remote.futures", "patch_threads"),
    *((name, "scalana.runtime.remote.futures", "patch_pools") for name in libraries.EXECUTORS),
    *((name, "scalana.runtime.remote.queues", "patch_loky_queues") for name in libraries.LOKY_QUEUES),
    ("joblib.parallel", "scalana.runtime.remote.joblib_waits", "patch"),
    ("mpi4py.MPI", "scalana.runtime.remote.pickles", "patch_mpi4py"),
    ("asyncio.base_events", "scalana.runtime.remote.event_loops", "patch_loops"),
    ("asyncio.futures", "scalana.runtime.remote.event_loops", "patch"),
    ("asyncio.tasks", "scalana.runtime.remote.event_loops", "patch_tasks"),
    *(
        (f"{package}.{module}", f"scalana.runtime.remote.{home}", function)
        for package in libraries.LIKE_MULTIPROCESSING
        for module, home, function in (
            ("process", "processes", "patch"),
            ("pool", "pools", "patch"),
            ("queues", "queues", "patch_queues"),
            ("connection", "queues", "patch_connections"),
            ("managers", "managers.requests", "patch"),
        )
    ),
    ("zmq.sugar.socket", "scalana.runtime.remote.zmq_sockets", "patch_sockets"),
    ("zmq.sugar.poll", "scalana.runtime.remote.zmq_sockets", "patch_polls"),
    ("zmq._future", "scalana.runtime.remote.zmq_loops", "patch"),
    ("ray._private.worker", "scalana.runtime.ray.callers", "patch_worker"),
    ("ray._private.worker", "scalana.runtime.ray.cluster", "patch_worker"),
    ("ray._private.worker", "scalana.runtime.ray.workers", "patch_worker"),
    ("ray._private.function_manager", "scalana.runtime.ray.workers", "patch_execution"),
    ("ray.remote_function", "scalana.runtime.ray.callers", "patch_functions"),
    ("ray.remote_function", "scalana.runtime.ray.cluster", "patch_options"),
    ("ray.actor", "scalana.runtime.ray.callers", "patch_actors"),
    ("ray.actor", "scalana.runtime.ray.cluster", "patch_options"),
    ("http.client", "scalana.runtime.http.blocking", "patch_client"),
    ("httpcore._sync.http11", "scalana.runtime.http.blocking", "patch_httpcore"),
    ("httpcore._async.http11", "scalana.runtime.http.loops", "patch_httpcore"),
    ("aiohttp.client_reqrep", "scalana.runtime.http.loops", "patch_aiohttp"),
    ("aiohttp.streams", "scalana.runtime.http.loops", "patch_aiohttp_streams"),
    ("aiohttp.client_proto", "scalana.runtime.http.loops", "patch_aiohttp_protocol"),
    ("http.server", "scalana.runtime.http.servers", "patch_server"),
    ("werkzeug.serving", "scalana.runtime.http.servers", "patch_werkzeug"),
    ("uvicorn.protocols.http.h11_impl", "scalana.runtime.http.servers", "patch_uvicorn"),
    ("uvicorn.protocols.http.httptools_impl", "scalana.runtime.http.servers", "patch_uvicorn"),
    ("uvicorn.server", "scalana.runtime.http.servers", "patch_uvicorn_server"),
    ("aiohttp.web_runner", "scalana.runtime.http.servers", "patch_aiohttp_sites"),
    ("aiohttp.web_protocol", "scalana.runtime.http.servers", "patch_aiohttp"),
    ("aiohttp.web_response", "scalana.runtime.http.servers", "patch_aiohttp_responses"),
    ("ray.train.v2.api.data_parallel_trainer", "scalana.runtime.ray.train", "patch_trainer"),
    ("ray.train.v2._internal.execution.worker_group.worker", "scalana.runtime.ray.train", "patch_worker"),
    ("ray.train.v2._internal.execution.worker_group.thread_runner", "scalana.runtime.ray.train", "patch_threads"),
    ("ray.train.v2._internal.execution.context", "scalana.runtime.ray.train", "patch_context"),
    ("ray.train.v2._internal.execution.collective_impl", "scalana.runtime.ray.train", "patch_collectives"),
    ("ray.data._internal.block_batching.iter_batches", "scalana.runtime.ray.data", "patch_batches"),
    ("ray.data._internal.execution.streaming_executor", "scalana.runtime.ray.data", "patch_executor"),
    ("ray.data._internal.execution.streaming_executor_state", "scalana.runtime.ray.data", "patch_states"),
    ("torch.distributed.rpc.api", "scalana.runtime.torch.rpc", "patch"),
    ("codetiming", "scalana.runtime.rl.timers", "mark_timers"),
    ("skyrl.train.utils.utils", "scalana.runtime.rl.timers", "mark_timers"),
    ("skyrl.train.generators.skyrl_gym_generator", "scalana.runtime.rl.answers", "mark_answers"),
    ("verl.experimental.agent_loop.agent_loop", "scalana.runtime.rl.answers", "mark_answers"),
    ("verl.trainer.ppo.v1.agent_loop_tq", "scalana.runtime.rl.answers", "mark_answers"),
    ("verl.experimental.reward_loop.reward_loop", "scalana.runtime.rl.methods", "mark_methods"),
    ("verl.workers.engine_workers", "scalana.runtime.rl.methods", "mark_methods"),
    ("verl.trainer.ppo.v1.replay_buffer", "scalana.runtime.rl.methods", "mark_methods"),
    ("verl.trainer.ppo.v1.replay_buffer", "scalana.runtime.rl.verl_queue", "record_polls"),
    ("verl.trainer.ppo.v1.agent_loop_tq", "scalana.runtime.rl.verl_queue", "record_answers"),
    ("areal.utils.stats_tracker", "scalana.runtime.rl.methods", "mark_managers"),
    ("areal.infra.remote_inf_engine", "scalana.runtime.rl.answers", "mark_answers"),
    ("nemo_rl.utils.timer", "scalana.runtime.rl.timers", "mark_timers"),
    ("nemo_rl.experience.rollouts", "scalana.runtime.rl.answers", "mark_answers"),
    ("slime.observability.timer", "scalana.runtime.rl.timers", "mark_timers"),
    ("slime.utils.timer", "scalana.runtime.rl.timers", "mark_timers"),
    ("slime.rollout.sglang_rollout", "scalana.runtime.rl.answers", "mark_answers"),
    ("rlinf.utils.timers", "scalana.runtime.rl.timers", "mark_timers"),
    ("rlinf.scheduler.worker.worker", "scalana.runtime.rl.methods", "mark_managers"),
    ("openrlhf.trainer.ppo_trainer", "scalana.runtime.rl.methods", "mark_methods"),
    ("openrlhf.trainer.ppo_utils.experience_maker", "scalana.runtime.rl.methods", "mark_methods"),
    ("openrlhf.trainer.ppo_utils.samples_generator", "scalana.runtime.rl.methods", "mark_methods"),
    ("openrlhf.utils.agent", "scalana.runtime.rl.answers", "mark_answers"),
    ("ray.rllib.env.env_runner", "scalana.runtime.rl.rllib", "name_actors"),
    ("ray.rllib.env.single_agent_env_runner", "scalana.runtime.rl.rllib", "mark_runners"),
    ("ray.rllib.env.single_agent_env_runner", "scalana.runtime.rl.methods", "mark_methods"),
    ("ray.rllib.env.multi_agent_env_runner", "scalana.runtime.rl.rllib", "mark_runners"),
    ("ray.rllib.env.multi_agent_env_runner", "scalana.runtime.rl.methods", "mark_methods"),
    ("ray.rllib.env.env_runner_group", "scalana.runtime.rl.methods", "mark_methods"),
    ("ray.rllib.core.learner.learner", "scalana.runtime.rl.rllib", "name_actors"),
    ("ray.rllib.core.learner.learner", "scalana.runtime.rl.rllib", "mark_learners"),
    ("ray.rllib.algorithms.utils", "scalana.runtime.rl.methods", "mark_methods"),
    ("ray.rllib.algorithms.algorithm", "scalana.runtime.rl.rllib", "mark_iterations"),
    ("ray.rllib.algorithms.algorithm", "scalana.runtime.rl.methods", "mark_methods"),
)
"""Module that the program imports; module of ours, and its function that is called with the other, once."""


def install() -> None:
    """Wait for all of them."""
    for watched, home, function in HOOKS:
        when_imported(watched, _installer(home, function))


def _installer(home: str, function: str) -> Callable[[Any], None]:
    def install_recorder(module: Any) -> None:
        from importlib import import_module

        getattr(import_module(home), function)(module)

    return install_recorder
