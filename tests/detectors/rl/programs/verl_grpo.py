"""GRPO by verl on a tiny model made from a configuration, on CPUs: a user's program, which knows nothing of scalana.

    VERL_USE_EXTERNAL_MODULES=verl_cpu VERL_PLATFORM=cpu python verl_grpo.py FOLDER STEPS [NAME=VALUE ...]

Two processes train (FSDP2), two servers generate. ``PLANTED`` in the environment says what is planted in it (see
``verl_planted.py``): long answers in some steps, slow rewards in others, a slow trainer, rows of uneven lengths.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from verl_planted import planted

PROMPTS, ANSWERS, MOST = 4, 2, 128
WHOLE = "{param_dtype: fp32, reduce_dtype: fp32, buffer_dtype: fp32}"


def make_model(folder: Path) -> None:
    import tiny_llama
    from tokenizers import pre_tokenizers

    words = ["user", "assistant", *(f"w{number}" for number in range(27))]
    tokenizer = tiny_llama.tokenizer(words, pre_tokenizers.WhitespaceSplit())
    tokenizer.chat_template = (
        "{% for message in messages %}{{ message['role'] }} {{ message['content'] }} <eos> {% endfor %}"
        "{% if add_generation_prompt %}assistant {% endif %}"
    )
    tokenizer.save_pretrained(folder)
    tiny_llama.model(tokenizer, 512).save_pretrained(folder)


def make_data(file: Path, rows: int) -> None:
    import pandas

    table = [
        {
            "data_source": "words",
            "prompt": [{"role": "user", "content": f"w{row % 27} w{row % 7}"}],
            "reward_model": {"style": "rule", "ground_truth": f"w{row % 27}"},
            "extra_info": {"index": row},
        }
        for row in range(rows)
    ]
    pandas.DataFrame(table).to_parquet(file)


def compute_score(data_source: str, solution_str: str, ground_truth: str, extra_info: dict[str, int]) -> float:
    step = extra_info["index"] // PROMPTS
    if step and step % 2 == 0:
        time.sleep(planted("rewards"))  # slow reward
    return float(solution_str.split().count(ground_truth))


def settings(folder: Path, steps: int) -> list[str]:
    return [
        "algorithm.adv_estimator=grpo",
        f"data.train_files={folder}/data.parquet",
        f"data.val_files={folder}/data.parquet",
        f"data.train_batch_size={PROMPTS}",
        "data.shuffle=False",
        "data.max_prompt_length=16",
        f"data.max_response_length={MOST}",
        "data.dataloader_num_workers=0",
        f"actor_rollout_ref.model.path={folder}/model",
        "+actor_rollout_ref.model.override_config={attn_implementation: sdpa}",
        "actor_rollout_ref.model.use_remove_padding=False",
        "actor_rollout_ref.model.enable_gradient_checkpointing=False",
        "actor_rollout_ref.actor.strategy=fsdp2",
        "actor_rollout_ref.actor.fsdp_config.strategy=fsdp2",
        "actor_rollout_ref.actor.use_torch_compile=False",
        "actor_rollout_ref.actor.fsdp_config.use_torch_compile=False",
        f"+actor_rollout_ref.actor.fsdp_config.mixed_precision={WHOLE}",
        f"actor_rollout_ref.actor.ppo_mini_batch_size={PROMPTS}",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2",
        "actor_rollout_ref.actor.optim.lr=1e-4",
        "actor_rollout_ref.rollout.name=cpu",
        f"actor_rollout_ref.rollout.n={ANSWERS}",
        "actor_rollout_ref.rollout.tensor_model_parallel_size=1",
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=4",
        "actor_rollout_ref.rollout.agent.num_workers=1",
        "actor_rollout_ref.rollout.free_cache_engine=False",
        "reward.num_workers=1",
        f"reward.custom_reward_function.path={os.path.abspath(__file__)}",
        "trainer.device=cpu",
        "trainer.logger=[console]",
        "trainer.n_gpus_per_node=2",
        "trainer.val_before_train=False",
        "trainer.resume_mode=disable",
        f"trainer.total_training_steps={steps}",
        "trainer.use_v1=False",
        "ray_kwargs.ray_init.num_cpus=10",
        "+ray_kwargs.ray_init.resources={NPU: 2}",
        "+ray_kwargs.ray_init.address=local",
        "+ray_kwargs.ray_init.include_dashboard=False",
        f"hydra.run.dir={folder}/hydra",
    ]


def main(output: str, steps: str, *more: str) -> None:
    folder = Path(output).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    make_model(folder / "model")
    make_data(folder / "data.parquet", PROMPTS * int(steps))
    from verl.trainer.main_ppo import main as train

    sys.argv = [sys.argv[0], *settings(folder, int(steps)), *more]
    train()


if __name__ == "__main__":
    main(*sys.argv[1:])
