"""Training by RLlib on an environment that sleeps, with causes of delay that are planted.

    python rllib_loop.py ppo|appo|tune LEARNERS ITERATIONS TRUTH [PLANTED ...]

``env``: one runner steps a slow environment. ``learner``: one learner takes longer for its loss. ``connector``: what
makes batches of episodes sleeps. ``weights``: the model is large. ``evaluation``: every second iteration evaluates.
What was really slept is written to files in the folder ``TRUTH``, a line each time.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import ray
from ray import tune
from ray.rllib.algorithms.appo import APPOConfig
from ray.rllib.algorithms.ppo import PPO, PPOConfig
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from rllib_planted import RUNNERS, STEPS, Large, Sleepy, SlowBatches, SlowLoss, wrote


def configured(algorithm: str, learners: int, truth: str, planted: list[str]) -> Any:
    env = {"truth": truth, "planted": planted, "evaluates": False}
    config = (
        (APPOConfig if algorithm == "appo" else PPOConfig)()
        .environment(Sleepy, env_config=env)
        .env_runners(num_env_runners=RUNNERS, rollout_fragment_length=STEPS)
        .learners(num_learners=learners)
    )
    batch = RUNNERS * STEPS // max(learners, 1)
    if algorithm == "appo":
        return (
            config.training(train_batch_size_per_learner=batch)
            .env_runners(use_env_runner_state_server=False)
            .reporting(min_time_s_per_iteration=1)
        )
    config = config.training(train_batch_size_per_learner=batch, minibatch_size=batch, num_epochs=2)
    if "learner" in planted:
        config = config.training(learner_class=SlowLoss, learner_config_dict={"slow": True, "truth": truth})
    if "connector" in planted:
        config = config.training(learner_connector=lambda *spaces: SlowBatches(truth))
    if "weights" in planted:
        config = config.rl_module(rl_module_spec=RLModuleSpec(module_class=Large))
    if "evaluation" in planted:
        config = config.evaluation(
            evaluation_interval=2,
            evaluation_num_env_runners=1,
            evaluation_duration=1,
            evaluation_config={"env_config": {**env, "evaluates": True}},
        )
    return config


def main() -> None:
    algorithm, learners, iterations, truth, *planted = sys.argv[1:]
    ray.init(num_cpus=16, include_dashboard=False, log_to_driver=False)
    config = configured(algorithm, int(learners), truth, planted)
    if algorithm == "tune":
        run = tune.RunConfig(stop={"training_iteration": int(iterations)}, verbose=0, storage_path=truth)
        config = config.environment(env_config={**config.env_config, "trial": tune.grid_search([0, 1])})
        results = tune.Tuner(PPO, param_space=config, run_config=run).fit()
        print("trials:", len(results), results.errors)
    else:
        trained = config.build_algo()
        for _ in range(int(iterations)):
            began = time.perf_counter()
            trained.train()
            wrote(truth, "iteration", time.perf_counter() - began)
        trained.stop()
        print("trained")
    ray.shutdown()


if __name__ == "__main__":
    main()
