"""Stand-ins for what trainers mark their phases and answers by, with their signatures, and a use of each.

    python rl_frameworks.py known|renamed

With ``renamed`` nothing that is known is there any more. Prints the results, which must not depend on being recorded.
"""

from __future__ import annotations

import asyncio
import importlib.abc
import importlib.machinery
import sys
from importlib import import_module
from types import SimpleNamespace

TIMER = """
class {name}:
    def __init__(self):
        self.running, self.took = set(), {{}}
    def start(self, {argument}{more}):
        assert {argument} not in self.running
        self.running.add({argument})
    def {end}(self, {argument}{more}):
        self.running.remove({argument})
        self.took[{argument}] = 1.0
        return 1.0
"""
STATS = """
from contextlib import contextmanager
class DistributedStatsTracker:
    def __init__(self):
        self.took = []
    @contextmanager
    def record_timing(self, key):
        try:
            yield 7
        finally:
            self.took.append(key)
DEFAULT_TRACKER = DistributedStatsTracker()
record_timing = DEFAULT_TRACKER.record_timing
"""
WORKER = """
import inspect
from contextlib import contextmanager
class Worker:
    def __init__(self):
        self.took = []
    @contextmanager
    def worker_timer(self, tag=None):
        if tag is None:
            tag = inspect.stack()[2].function
        try:
            yield
        finally:
            self.took.append(tag)
    def run_training(self):
        with self.worker_timer():
            pass
"""
ENGINE = """
class RemoteInfEngine:
    async def agenerate(self, req):
        if not req.input_ids:
            raise ValueError("no prompt")
        class Response: input_len, output_len = len(req.input_ids), 30
        return Response
"""
AGENT_LOOP = """
class Output:
    prompt_ids, response_ids = [1, 2], [3] * 40
class AgentLoopWorker:
    async def _run_agent_loop(self, sampling_params, trajectory, *, agent_name, trace=True, **kwargs):
        return await self._agent_loop_postprocess(Output, trajectory["validate"], **kwargs)
    async def _agent_loop_postprocess(self, output, validate, **kwargs):
        return "padded"
"""
SAMPLES = """
class SamplesGenerator:
    def generate_samples(self, **generate_kwargs):
        return ["sample"], None, 1, False
"""
EXPERIENCE = """
class RemoteExperienceMaker:
    def make_experience_batch(self, rollout_samples):
        return self.compute_advantages_and_returns(rollout_samples)
    def compute_advantages_and_returns(self, experiences):
        return experiences
"""
PPO = """
class BasePPOTrainer:
    def ppo_train(self, global_steps):
        return {"steps": global_steps}
    def broadcast_to_vllm(self):
        pass
"""
EXECUTORS = """
class MultiTurnAgentExecutor:
    async def execute(self, prompt, label, sampling_params, max_length, hf_tokenizer, llm_engine, images=None):
        return {"observation_tokens": [0] * 20, "action_ranges": [(3, 8), (10, 20)]}
class SingleTurnAgentExecutor:
    async def execute(self, prompt, label, sampling_params, max_length, hf_tokenizer, llm_engine, images=None):
        return {"observation_tokens": [0] * 20, "action_ranges": [(4, 20)]}
"""
SGLANG = """
async def generate(args, sample, sampling_params):
    sample.response_length, sample.tokens = 50, [0] * 54
    return sample
async def generate_and_rm(args, sample, sampling_params):
    return await generate(args, sample, sampling_params)
"""
ROLLOUTS = """
async def async_generate_response_for_sample_turn(
    policy_generation, sample_message_log, sample_stop_strings, tokenizer, max_seq_len, greedy=False
):
    return sample_message_log, [0] * 60, 6, {}
"""
GYM = """
class Output:
    prompt_ids, response_ids = [1], [0] * 70
class Steps:
    step_outputs = [Output, Output]
class SkyRLGymGenerator:
    async def agent_loop(
        self, prompt, env_class, env_extras, max_tokens, max_input_length, sampling_params=None, trajectory_id=None,
        cache_salt=None,
    ):
        return Steps if trajectory_id is None else Output
"""
RUNNER = """
from types import SimpleNamespace
from ray.rllib.env.env_runner import EnvRunner
class {name}(EnvRunner):
    def sample(self, *, num_timesteps=None, num_episodes=None, explore=None, random_actions=False, force_reset=False):
        if num_timesteps is None:
            raise ValueError("no environment")
        return [SimpleNamespace(env_steps=lambda: num_timesteps)] * 2
    def set_state(self, state):
        self.state = state
"""
SOURCES = {
    "ray.rllib.env.env_runner": """
class EnvRunner:
    def __init__(self, *, config, **kwargs):
        self.config, self.worker_index = config, kwargs.get("worker_index")
""",
    "ray.rllib.env.single_agent_env_runner": RUNNER.format(name="SingleAgentEnvRunner"),
    "ray.rllib.env.multi_agent_env_runner": RUNNER.format(name="MultiAgentEnvRunner"),
    "ray.rllib.env.env_runner_group": """
class EnvRunnerGroup:
    def sync_weights(self, policies=None, from_worker_or_learner_group=None):
        return policies
    def sync_env_runner_states(self, *, config):
        return config
""",
    "ray.rllib.core.learner.learner": """
class Learner:
    def __init__(self, *, config):
        pass
    def update(self, batch=None, batches=None):
        return self._make_batch_if_necessary(training_data=batch)
    def _make_batch_if_necessary(self, training_data):
        from types import SimpleNamespace
        return SimpleNamespace(env_steps=lambda: training_data)
""",
    "ray.rllib.algorithms.utils": """
class AggregatorActor:
    def get_batch(self, episode_refs):
        return episode_refs
""",
    "ray.rllib.algorithms.algorithm": """
class Algorithm:
    def step(self):
        return {"evaluated": self.evaluate()}
    def evaluate(self, parallel_train_future=None):
        return parallel_train_future
""",
    "nemo_rl.utils.timer": TIMER.format(name="Timer", argument="label", end="stop", more=", should_log=True"),
    "slime.utils.timer": TIMER.format(name="Timer", argument="name", end="end", more=""),
    "slime.observability.timer": "from slime.utils.timer import Timer",
    "rlinf.utils.timers": TIMER.format(name="NamedTimer", argument="name", end="stop", more=""),
    "rlinf.scheduler.worker.worker": WORKER,
    "areal.utils.stats_tracker": STATS,
    "areal.infra.remote_inf_engine": ENGINE,
    "verl.experimental.agent_loop.agent_loop": AGENT_LOOP,
    "verl.trainer.ppo.v1.agent_loop_tq": """
from verl.experimental.agent_loop.agent_loop import AgentLoopWorker
class AgentLoopWorkerTQ(AgentLoopWorker):
    async def _agent_loop_postprocess(self, output, validate, **kwargs):
        return "queued"
    async def _run_prompt(self, prompt, sampling_params, trajectory, trace=False):
        ANSWERED.append(prompt.pop("uid"))
        return "answered"
ANSWERED = []
""",
    "verl.experimental.reward_loop.reward_loop": """
class RewardLoopWorker:
    async def compute_score(self, data):
        return data
""",
    "verl.workers.engine_workers": """
class ActorRolloutRefWorker:
    async def update_weights(self, global_steps=None, mode="auto"):
        return global_steps
    def compute_ref_log_prob(self, data):
        return data
    def compute_log_prob(self, data):
        return data
    def update_actor(self, data):
        return data
""",
    "verl.trainer.ppo.v1.replay_buffer": """
from verl.trainer.ppo.v1.agent_loop_tq import ANSWERED
class ReplayBuffer:
    def __init__(self):
        self.finished_keys, self.failure_keys = {"train": {"before"}}, {"train": set()}
    def _wait_for_next_poll(self, partition_id, last_debug_time):
        return last_debug_time
    def _sync_metadata_from_transfer_queue(self):
        self.finished_keys = {"train": {"before", *ANSWERED}}
""",
    "openrlhf.trainer.ppo_utils.samples_generator": SAMPLES,
    "openrlhf.trainer.ppo_utils.experience_maker": EXPERIENCE,
    "openrlhf.trainer.ppo_trainer": PPO,
    "openrlhf.utils.agent": EXECUTORS,
    "slime.rollout.sglang_rollout": SGLANG,
    "nemo_rl.experience.rollouts": ROLLOUTS,
    "skyrl.train.generators.skyrl_gym_generator": GYM,
}


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """The modules above, and packages for them to be in."""

    def find_spec(self, name: str, path: object, target: object = None) -> importlib.machinery.ModuleSpec | None:
        package = any(home.startswith(name + ".") for home in SOURCES)
        return importlib.machinery.ModuleSpec(name, self, is_package=package) if package or name in SOURCES else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        return None

    def exec_module(self, module: object) -> None:
        exec(SOURCES.get(module.__name__, ""), module.__dict__)


def timers() -> list[object]:
    nemo = import_module("nemo_rl.utils.timer").Timer()
    nemo.start("generation")
    nemo.start("idle/buffer_starvation", should_log=False)
    assert nemo.stop("generation") == 1.0
    nemo.stop(label="idle/buffer_starvation")
    slime = import_module("slime.observability.timer").Timer()
    slime.start("train_wait")
    slime.start("update_weights")
    slime.end("update_weights")
    slime.end("train_wait")
    try:
        slime.end("never begun")
    except KeyError:
        pass
    rlinf = import_module("rlinf.utils.timers").NamedTimer()
    rlinf.start(name="sync_weights")
    rlinf.stop(name="sync_weights")
    return [nemo.took, slime.took, rlinf.took]


def managers() -> list[object]:
    stats = import_module("areal.utils.stats_tracker")
    with stats.record_timing("ref_logp") as given:
        assert given == 7
    try:
        with stats.record_timing(key="train_step"):
            raise ValueError
    except ValueError:
        pass
    own = stats.DistributedStatsTracker()

    @own.record_timing("compute_advantage")
    def decorated() -> int:
        return 3

    assert decorated() + decorated() == 6
    worker = import_module("rlinf.scheduler.worker.worker").Worker()
    worker.run_training()
    with worker.worker_timer(tag="actor/recv_traj"):
        pass
    return [stats.DEFAULT_TRACKER.took, own.took, worker.took]


def methods() -> list[object]:
    samples = import_module("openrlhf.trainer.ppo_utils.samples_generator").SamplesGenerator().generate_samples(a=1)
    made = import_module("openrlhf.trainer.ppo_utils.experience_maker").RemoteExperienceMaker()
    trainer = import_module("openrlhf.trainer.ppo_trainer").BasePPOTrainer()
    status = trainer.ppo_train(4)
    trainer.broadcast_to_vllm()
    return [samples, made.make_experience_batch(samples[0]), status]


def rllib() -> list[object]:
    runners = []
    for home, kind in (
        ("single_agent_env_runner", "SingleAgentEnvRunner"),
        ("multi_agent_env_runner", "MultiAgentEnvRunner"),
    ):
        runner = getattr(import_module(f"ray.rllib.env.{home}"), kind)
        runners.append(runner(config=SimpleNamespace(in_evaluation=len(runners) > 0), worker_index=3))
    sampled = [episode.env_steps() for runner in runners for episode in runner.sample(num_timesteps=11)]
    try:
        runners[0].sample()
    except ValueError:
        pass
    group = import_module("ray.rllib.env.env_runner_group").EnvRunnerGroup()
    learner = import_module("ray.rllib.core.learner.learner").Learner(config=None)
    algorithm = import_module("ray.rllib.algorithms.algorithm").Algorithm()
    return [
        sampled,
        [runner.set_state({}) for runner in runners],
        import_module("ray.rllib.algorithms.utils").AggregatorActor().get_batch([4]),
        learner.update(batch=5).env_steps(),
        group.sync_weights(policies=["a"]),
        group.sync_env_runner_states(config=None),
        [algorithm.step() for _ in range(2)],
    ]


async def coroutines() -> list[object]:
    loop = import_module("verl.experimental.reward_loop.reward_loop").RewardLoopWorker()
    worker = import_module("verl.workers.engine_workers").ActorRolloutRefWorker()
    ids = SimpleNamespace(is_nested=True, values=lambda: SimpleNamespace(numel=lambda: 70))
    batch = {"input_ids": ids}
    assert worker.compute_ref_log_prob(batch) is worker.compute_log_prob(batch) is worker.update_actor(data=batch)
    assert worker.update_actor(SimpleNamespace(tags=[{"seq_len": 30}, {"seq_len": 50}]))  # it lies in a queue
    buffer = import_module("verl.trainer.ppo.v1.replay_buffer").ReplayBuffer()
    agent = import_module("verl.trainer.ppo.v1.agent_loop_tq").AgentLoopWorkerTQ()
    for uid in ("one", "", "two"):  # the trainer looks three times, the second time in vain
        assert buffer._wait_for_next_poll("train", 0.5) == 0.5
        assert not uid or await agent._run_prompt({"uid": uid}, {}, trajectory={}) == "answered"
        buffer._sync_metadata_from_transfer_queue()
    assert worker.update_actor(SimpleNamespace(custom_meta=[{"seq_len": 90}]))  # a part of it, which is known by places
    return await asyncio.gather(loop.compute_score(0.5), worker.update_weights(global_steps=3))


async def answers() -> list[object]:
    engine = import_module("areal.infra.remote_inf_engine").RemoteInfEngine()
    loops = import_module("verl.experimental.agent_loop.agent_loop")
    queued = import_module("verl.trainer.ppo.v1.agent_loop_tq")
    agents = import_module("openrlhf.utils.agent")
    sglang = import_module("slime.rollout.sglang_rollout")
    nemo = import_module("nemo_rl.experience.rollouts")
    gym = import_module("skyrl.train.generators.skyrl_gym_generator")
    at = {"step": 3, "sample_index": 5, "rollout_n": 1, "validate": False}
    gym_call = ([], "env", {}, 10, 10)
    results = await asyncio.gather(
        engine.agenerate(SimpleNamespace(rid="r1", input_ids=[1, 2, 3])),
        engine.agenerate(req=SimpleNamespace(rid="r2", input_ids=[])),
        loops.AgentLoopWorker()._run_agent_loop({}, at, agent_name="single"),
        queued.AgentLoopWorkerTQ()._run_agent_loop({}, at, agent_name="single"),
        agents.SingleTurnAgentExecutor().execute("p", "l", None, max_length=9, hf_tokenizer=None, llm_engine=None),
        agents.MultiTurnAgentExecutor().execute(
            prompt="p", label="l", sampling_params=None, max_length=9, hf_tokenizer=None, llm_engine=None
        ),
        sglang.generate_and_rm(None, SimpleNamespace(index=8, group_index=2), {}),
        nemo.async_generate_response_for_sample_turn(None, [{"content": "x"}], None, None, 100),
        gym.SkyRLGymGenerator().agent_loop(*gym_call),
        gym.SkyRLGymGenerator().agent_loop(*gym_call, trajectory_id=SimpleNamespace(instance_id="i", repetition_id=2)),
        return_exceptions=True,
    )
    assert isinstance(results[1], ValueError)
    return [getattr(result, "__name__", result) for result in results if not isinstance(result, SimpleNamespace)]


if __name__ == "__main__":
    if sys.argv[1] == "renamed":
        SOURCES = dict.fromkeys(SOURCES, "")
    sys.meta_path.insert(1, Finder())  # behind the one that waits for modules
    if sys.argv[1] == "renamed":
        print([import_module(home).__name__ for home in SOURCES])
    else:
        print(timers(), managers(), methods(), rllib(), asyncio.run(coroutines()), asyncio.run(answers()))
