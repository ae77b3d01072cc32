"""Throughputs that Laminar (arXiv:2510.12633) publishes for itself and for verl, next to those that a replay predicts.

    python tests/benchmarks/laminar_throughput.py

Simulates, and needs no GPU: half a minute of CPU time. Prints a Markdown table, which constants were fitted to which
points, and the largest error of the points that nothing was fitted to.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from scalana.graphs.arrays.types import FloatArray
from scalana.workload.comparison import places
from scalana.workload.costs import NAMED, Decode
from scalana.workload.replay import Relay, Replayed, Setting, replay
from scalana.workload.step_costs import StepCosts, TokenCost
from scalana.workload.trajectories import Turns, Workload

# From the paper: 512 prompts with 16 answers each in 16 mini-batches, H800 with 400 Gb/s each between machines, and
# Qwen2.5 on replicas of 2, 4 and 8 GPUs.
PROMPTS, ANSWERS, MINI_BATCHES, LINK_BYTES_S = 512, 16, 16, 50e9
RELAY = Relay(stall_s=1.0, late_s=1.6, pull_s=1.0)
"""Stall of the actor 0.64 s (32B) and 1.40 s (72B), broadcast below 1.6 s."""
# Not from the paper: tokens of a prompt; half of the median as the 10 % quantile of lengths.
PROMPT = 150.0
STEPS, WARM_UP = 5, 2
DIVISIONS = (0.25, 0.5, 0.625)
"""Parts of the GPUs that train, of which the fastest is taken: the paper's are not known here."""
FLOORS_S = np.geomspace(8e-3, 100e-3, 7)
POLICIES = {"verl": "batch", "one-step": "one-step-off", "stream": "stream", "Laminar": "relay-repack"}


@dataclass(frozen=True)
class Model:
    """A model of the paper."""

    parameters: float
    tensor: int
    """GPUs of a replica."""
    quantiles: tuple[float, float, float, float]
    """p50, p90, p99 and maximum of its lengths, read from the paper's figure."""
    engine: Decode
    """Its decoding curve, read from the paper's figure; of 72B derived from those of the others by sizes."""
    slots: int
    """Answers at once for which 85 % of 80 GB, less the weights, have room, by the bytes of a token."""
    verl: dict[int, float]
    """Thousand tokens a second, by GPUs, read from the paper's figure."""
    laminar: dict[int, float]


MODELS = {
    "7B": Model(
        7.6e9,
        2,
        (6152, 9709, 13999, 16373),
        NAMED["7b-tp2"],
        660,
        {16: 28, 64: 46, 256: 47},
        {16: 35, 64: 137, 256: 260},
    ),
    "32B": Model(32.8e9, 4, (2822, 5980, 10527, 16358), NAMED["32b-tp4"], 400, {32: 18, 512: 51}, {32: 21, 512: 230}),
    "72B": Model(
        72.7e9, 8, (919, 1700, 2740, 4386), Decode(13.0e-3, 15e-6, 14e-9), 1024, {64: 19, 1024: 33}, {64: 20, 1024: 149}
    ),
}
FITTED_TO_LAMINAR = ("72B", 1024)
"""The one point of Laminar's that something is fitted to."""


@dataclass(frozen=True)
class Constants:
    """What is fitted."""

    floor_s: dict[str, float]
    """Of a decoding step, by model; the curves' other two costs are as read."""
    flops: float
    """Of a GPU that trains, all models."""
    link: float
    """Part of the links' bandwidth that gradients and weights get in each mini-batch, all models."""


@cache
def workload(name: str, steps: int) -> Workload:
    """Steps with the lengths of a model, in random order."""
    p50, p90, p99, most = MODELS[name].quantiles
    count = PROMPTS * ANSWERS
    parts = (np.arange(count) + 0.5) / count
    lengths = np.interp(parts, [0.0, 0.5, 0.9, 0.99, 1.0], [0.1 * p50, p50, p90, p99, most]).round()
    random = np.random.default_rng(0)
    response = np.concatenate([random.permutation(lengths) for _ in range(steps)])
    prompt, unknown = np.full(len(response), PROMPT), np.full(len(response), np.nan)
    return Workload(
        step=np.repeat(np.arange(steps), count),
        group=np.tile(np.repeat(np.arange(PROMPTS), ANSWERS), steps),
        prompt=prompt,
        response=response,
        verifier_s=unknown,
        replica=np.full(len(response), -1),
        begin_s=unknown,
        end_s=unknown,
        clipped=np.zeros(len(response), np.bool_),
        turns=Turns.single(prompt, response),
    )


def training(model: Model, constants: Constants) -> StepCosts:
    """Training on one process, divided over others: 6 FLOP a parameter and token; gradients of 4 bytes and weights of 2
    over the links in each mini-batch."""
    meeting_s = 6 * model.parameters / model.tensor / (LINK_BYTES_S * constants.link)
    line = TokenCost(MINI_BATCHES * meeting_s, 6 * model.parameters / constants.flops, np.ones(1))
    return StepCosts({"training": line}, {}, frozenset({"generation", "training"}), 0.0, False, np.full(1, np.nan))


def simulated(name: str, system: str, gpus: int, constants: Constants) -> tuple[float, Replayed]:
    """Thousand tokens a second, with the fastest division of GPUs; and the replay."""
    model, policy = MODELS[name], POLICIES[system]
    engine = model.engine
    decode = Decode(constants.floor_s[name], engine.sequence_s, engine.context_s, slots=model.slots)
    in_turn = system == "verl"
    of = workload(name, 1 if in_turn else STEPS)
    steady = slice(0, 1) if in_turn else slice(WARM_UP, STEPS - 1)
    best: tuple[float, Replayed] | None = None
    for place in places(policy, gpus, model.tensor):
        if not in_turn and all(abs(place.trainers / gpus - part) > 0.05 for part in DIVISIONS):
            continue
        found = replay(
            of, Setting(policy, place.replicas, decode, training(model, constants), 4, place.trainers, RELAY)
        )
        rate = found.tokens / of.steps / float(found.step_s[steady].mean()) / 1e3
        if best is None or rate > best[0]:
            best = rate, found
    assert best is not None
    return best


def smallest(cost: Callable[[float], float], low: float, high: float, turns: int) -> float:
    """Where a function of one number is smallest, by golden section of its logarithm."""
    ratio = (math.sqrt(5.0) - 1.0) / 2.0
    a, b = math.log(low), math.log(high)
    x, y = b - ratio * (b - a), a + ratio * (b - a)
    at_x, at_y = cost(math.exp(x)), cost(math.exp(y))
    for _ in range(turns):
        if at_x < at_y:
            b, y, at_y = y, x, at_x
            x = b - ratio * (b - a)
            at_x = cost(math.exp(x))
        else:
            a, x, at_x = x, y, at_y
            y = a + ratio * (b - a)
            at_y = cost(math.exp(y))
    return math.exp((a + b) / 2.0)


@cache
def generation_s(name: str, gpus: int) -> FloatArray:
    """What verl's generation takes, by the floors of :data:`FLOORS_S` ``[floors]``."""
    no_training = Constants({}, math.inf, math.inf)
    rates = [simulated(name, "verl", gpus, replace(no_training, floor_s={name: each}))[0] for each in FLOORS_S]
    of = workload(name, 1)
    return (of.response.sum() + of.prompt.sum()) / 1e3 / np.array(rates)


def verl_off(name: str, floor_s: float, constants: Constants) -> float:
    """Sum of the squared errors of verl's points of a model, in logarithms, with another floor."""
    model, of = MODELS[name], workload(name, 1)
    tokens, total = float(of.response.sum() + of.prompt.sum()), 0.0
    for gpus, rate in model.verl.items():
        line = training(model, constants).by_tokens["training"]
        made_s = float(np.interp(math.log(floor_s), np.log(FLOORS_S), generation_s(name, gpus)))
        step_s = made_s + line.base_s + line.token_s * tokens / gpus
        total += math.log(tokens / step_s / 1e3 / rate) ** 2
    return total


def fit() -> Constants:
    """Fit floors and FLOP/s to verl's points, and the links to one of Laminar's: in turns, as verl's points hardly
    depend on the links."""

    def of_verl(flops: float, link: float) -> tuple[float, Constants]:
        known = Constants({}, flops, link)
        floors = {
            name: smallest(lambda each, name=name: verl_off(name, each, known), FLOORS_S[0], FLOORS_S[-1], 25)  # type: ignore[misc]
            for name in MODELS
        }
        return sum(verl_off(name, each, known) for name, each in floors.items()), replace(known, floor_s=floors)

    name, gpus = FITTED_TO_LAMINAR
    link = 0.5
    for _ in range(2):
        found = of_verl(smallest(lambda each, link=link: of_verl(each, link)[0], 100e12, 900e12, 20), link)[1]  # type: ignore[misc]

        def cost(part: float, found: Constants = found) -> float:
            rate = simulated(name, "Laminar", gpus, replace(found, link=part))[0]
            return abs(math.log(rate / MODELS[name].laminar[gpus]))

        link = smallest(cost, 0.15, 1.0, 4)
    return replace(found, link=link)


def main() -> None:
    constants = fit()
    heads = ("model", "GPUs", "verl, published", "replay", "off", "Laminar, published", "replay", "off")
    print(f"| {' | '.join((*heads, 'one-step', 'stream', 'stale'))} |\n|{'---|' * 11}")
    tested, ordered, points = [], 0, 0
    for name, model in MODELS.items():
        for gpus in model.verl:
            rates, stale = {}, ""
            for system in POLICIES:
                rates[system], found = simulated(name, system, gpus, constants)
                if system == "Laminar":
                    stale = f"{found.stale.mean():.1f}, {found.stale.max()}"
            errors = rates["verl"] / model.verl[gpus] - 1.0, rates["Laminar"] / model.laminar[gpus] - 1.0
            fitted = (name, gpus) == FITTED_TO_LAMINAR
            tested += [] if fitted else [abs(errors[1])]
            points += 1
            ordered += rates["verl"] <= rates["one-step"] <= 1.01 * rates["stream"] <= 1.01 * rates["Laminar"]
            cells = (name, gpus, f"{model.verl[gpus]:.0f}", f"{rates['verl']:.1f}", f"{100 * errors[0]:+.0f}% (fit)")
            more = f"{model.laminar[gpus]:.0f}", f"{rates['Laminar']:.1f}", f"{100 * errors[1]:+.0f}%"
            last = f"{rates['one-step']:.1f}", f"{rates['stream']:.1f}", stale
            row = (*cells, *more[:2], more[2] + (" (fit)" if fitted else ""), *last)
            print(f"| {' | '.join(map(str, row))} |", flush=True)
    floors = ", ".join(f"{name} {1e3 * each:.1f} ms" for name, each in constants.floor_s.items())
    print(f"fitted to verl: {floors} a decoding step, {constants.flops / 1e12:.0f} TFLOP/s in training")
    print(f"fitted to Laminar at {FITTED_TO_LAMINAR[0]} on {FITTED_TO_LAMINAR[1]}: {constants.link:.2f} of the links")
    within = sum(one <= 0.25 for one in tested)
    print(f"Laminar's other points: {len(tested)}, within 25 %: {within}, largest error {100 * max(tested):.1f} %")
    print(f"order of the systems right at {ordered} of {points} points")


if __name__ == "__main__":
    main()
