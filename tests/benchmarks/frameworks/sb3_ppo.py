"""stable-baselines3: PPO with environments in processes of their own, of which one takes longer."""

import gymnasium
import torch
from planted import clock, computing, is_planted
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import SubprocVecEnv


class Rendered(gymnasium.Wrapper):
    def __init__(self, env, number):
        super().__init__(env)
        self.number = number

    def step(self, action):
        if is_planted() and self.number == 1:
            with clock():
                computing(0.008)  # <- env
        return self.env.step(action)


def main():
    torch.set_num_threads(1)
    environments = SubprocVecEnv(
        [lambda number=number: Rendered(gymnasium.make("CartPole-v1"), number) for number in range(2)],
        start_method="fork",
    )
    model = PPO("MlpPolicy", environments, n_steps=256, batch_size=64, n_epochs=4, device="cpu")
    with clock("loop"):
        model.learn(1500)
    environments.close()


if __name__ == "__main__":
    main()
