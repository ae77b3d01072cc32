"""Models of growth side by side with Extra-P, on the same synthetic measurements.

    python -m tests.benchmarks.extrap_comparison --extrap /path/to/venv/bin/extrap [--at 64] [--trials 10] [--repeats 1]
    python -m tests.benchmarks.extrap_comparison --extrap /path/to/venv/bin/extrap --runs RUNS

Extra-P stays in an environment of its own (``pip install extrap`` in a fresh venv). Both get the same series of
seconds: three and five sizes, without noise and with some; the error is that of the prediction at a size that was not
given. Extra-P is run once for every set of series, with its default options and with negative exponents allowed.

``--runs`` takes recorded programs instead, of at least four sizes each (folders ``NAME-RANKS``): the seconds of the
place that loses most, fitted without the largest run, and compared with it.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

import scalana
from scalana.detectors.runs.scaling.models import fit

SHAPES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "3": lambda p: 3.0 + 0.0 * p,
    "4 / p": lambda p: 4.0 / p,
    "1 + 8 / p": lambda p: 1.0 + 8.0 / p,
    "p^(-2/3)": lambda p: p ** (-2.0 / 3.0),
    "1 + 0.5 log2 p": lambda p: 1.0 + 0.5 * np.log2(p),
    "0.3 p^(1/2)": lambda p: 0.3 * p**0.5,
    "0.1 p": lambda p: 0.1 * p,
    "1 + 0.1 p": lambda p: 1.0 + 0.1 * p,
    "0.01 p^2": lambda p: 0.01 * p**2,
    "0.05 p log2 p": lambda p: 0.05 * p * np.log2(p),
    "4 / p + 0.05 p": lambda p: 4.0 / p + 0.05 * p,
    "1 + 0.1 p^(1/4) log2 p": lambda p: 1.0 + 0.1 * p**0.25 * np.log2(p),
    "4 / p + 0.1 + 0.02 p": lambda p: 4.0 / p + 0.1 + 0.02 * p,
}
"""Most are members of both families. Of the last three, the first is one of ours alone, the second one of Extra-P's
alone, and the third of neither."""
SIZES = {"3 sizes": [2, 4, 8], "5 sizes": [2, 4, 8, 16, 32]}
OPTIONS = {"Extra-P": [], "Extra-P, negative exponents": ["--options", "allow_negative_exponents=true"]}


def measure(sizes: list[int], noise: float, trials: int, repeats: int) -> dict[str, list[list[float]]]:
    """For every shape and trial (the name of the series) the seconds: ``[sizes][repeats]``."""
    random = np.random.default_rng(len(sizes))
    series = {}
    for name, shape in SHAPES.items():
        for trial in range(trials):
            exact = shape(np.array(sizes, dtype=float))
            factors = (
                np.exp(random.normal(0.0, noise, (len(sizes), repeats))) if noise else np.ones((len(sizes), repeats))
            )
            series[f"{name}#{trial}"] = (exact[:, None] * factors).tolist()
    return series


def recorded(runs: Path) -> dict[str, tuple[str, list[int], list[float]]]:
    """For every program the place that loses most on its largest number of ranks, the sizes, and the place's seconds of
    an average rank."""
    sizes: dict[str, list[int]] = {}
    for file in runs.glob("*/run.json"):
        name, _, ranks = file.parent.name.rpartition("-")
        if ranks.isdigit():
            sizes.setdefault(name, []).append(int(ranks))
    result = {}
    for name, found in sorted(sizes.items()):
        if len(found) >= 4:
            top = scalana.scaling([runs / f"{name}-{ranks}" for ranks in sorted(found)]).findings[0]
            result[name] = (
                f"{Path(top.file).name}:{top.line}",
                top.evidence.as_dict()["sizes"],
                top.evidence.as_dict()["seconds"],
            )
    return result


def compare_recorded(runs: Path, program: str) -> None:
    """Print how well each tells the largest run of every program from the others."""
    names = ["scalana", *OPTIONS]
    print("| place | fitted | largest | " + " | ".join(f"{name}: model | error" for name in names) + " |")
    print("|" + "---|" * (3 + 2 * len(names)))
    for place, sizes, seconds in recorded(runs).values():
        series = {place: [[value] for value in seconds[:-1]]}
        answers = [ours(sizes[:-1], series[place], sizes[-1])]
        answers += [extra_p(program, options, sizes[:-1], series, sizes[-1])[place] for options in OPTIONS.values()]
        cells = [f"`{model}` | {value / seconds[-1] - 1.0:+.1%}" for model, value in answers]
        fitted = ", ".join(f"{ranks}: {value:.3f}" for ranks, value in zip(sizes[:-1], seconds, strict=False))
        print(f"| {place} | {fitted} | {sizes[-1]}: {seconds[-1]:.3f} | " + " | ".join(cells) + " |")


def ours(sizes: list[int], values: list[list[float]], at: int) -> tuple[str, float]:
    """The model and its seconds on ``at`` ranks."""
    ranks = np.repeat(np.array(sizes, dtype=float), [len(row) for row in values])
    found = fit(ranks, np.concatenate(values))
    assert found is not None
    return str(found.model), found.predict(at).seconds


def extra_p(program: str, options: list[str], sizes: list[int], series: dict[str, list[list[float]]], at: int):
    """Model and seconds on ``at`` ranks of every series, by Extra-P."""
    keys = list(series)
    with tempfile.TemporaryDirectory() as folder:
        data, out = Path(folder) / "series.jsonl", Path(folder) / "out.txt"
        with data.open("w") as file:
            for number, key in enumerate(keys):
                for size, row in zip(sizes, series[key], strict=True):
                    for value in row:
                        entry = {"params": {"p": size}, "callpath": f"s{number}", "metric": "time", "value": value}
                        file.write(json.dumps(entry) + "\n")
        command = [program, "--json", str(data), "--disable-progress", "--out", str(out)]
        command += ["--print", "{callpath};{model:python}", *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
        lines = [line.split(";") for line in out.read_text().splitlines() if ";" in line]
    return {keys[int(path[1:])]: (rounded(model), evaluate(model, at)) for path, model in lines}


def evaluate(model: str, p: int) -> float:
    """The value of a model as Extra-P prints it for Python, such as ``2.1-0.45*log2(p)**(1)``."""
    text = model.replace("math.", "").replace("np.", "")
    if not re.fullmatch(r"[\s0-9eEp+\-*/().]*", text.replace("log2", "")):
        raise SystemExit(f"cannot read the model {model!r}")
    return float(eval(text, {"log2": math.log2, "p": float(p), "__builtins__": {}}))


def rounded(model: str) -> str:
    """A model with numbers of three digits."""
    return re.sub(
        r"[0-9.]+(e[-+]?[0-9]+)?", lambda number: f"{float(number[0]):.3g}", model.replace("log2", "LOG")
    ).replace("LOG", "log2")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--extrap", required=True, help="the program extrap, in an environment of its own")
    parser.add_argument("--at", type=int, default=64, help="size at which predictions are compared (default: 64)")
    parser.add_argument("--trials", type=int, default=10, help="noisy series of every shape (default: 10)")
    parser.add_argument("--repeats", type=int, default=1, help="measurements of each size (default: 1)")
    parser.add_argument("--noise", type=float, default=0.03, help="relative noise of a measurement (default: 0.03)")
    parser.add_argument("--runs", type=Path, help="folder of recorded programs to compare instead")
    parser.add_argument("--format", choices=("markdown", "json"), default="markdown", help="of the synthetic series")
    args = parser.parse_args()
    if args.runs:
        compare_recorded(args.runs, args.extrap)
        return
    errors: dict[str, dict[str, dict[str, float]]] = {}
    for label, sizes in SIZES.items():
        for noise in (0.0, args.noise):
            trials = args.trials if noise else 1
            series = measure(sizes, noise, trials, args.repeats)
            answers = {"scalana": {key: ours(sizes, values, args.at) for key, values in series.items()}}
            for name, options in OPTIONS.items():
                answers[name] = extra_p(args.extrap, options, sizes, series, args.at)
            if args.format == "markdown":
                print(
                    f"\n{label} {sizes}, noise {noise:.0%}, {args.repeats} per size: median error on {args.at} ranks\n"
                )
                print(table(answers, trials, args.at))
            every = {
                name: np.concatenate(list(of_shapes(found, trials, args.at).values()))
                for name, found in answers.items()
            }
            errors[f"{label}, {100 * noise:.0f} %"] = {
                name: {"median": float(np.median(of)), "most": float(np.quantile(of, 0.9))}
                for name, of in every.items()
            }
    if args.format == "json":
        print(json.dumps(errors))


def of_shapes(found: dict[str, tuple[str, float]], trials: int, at: int) -> dict[str, np.ndarray]:
    """The errors of all trials of each shape."""
    truth = {shape: float(function(np.array([at], dtype=float))[0]) for shape, function in SHAPES.items()}
    return {
        shape: np.array([abs(found[f"{shape}#{trial}"][1] / truth[shape] - 1.0) for trial in range(trials)])
        for shape in SHAPES
    }


def table(answers: dict[str, dict[str, tuple[str, float]]], trials: int, at: int) -> str:
    """The model of the first trial of each shape, and the median error of all; in the last rows that of all shapes."""
    lines = ["| truth | " + " | ".join(f"{name}: model | error" for name in answers) + " |"]
    lines.append("|" + "---|" * (1 + 2 * len(answers)))
    errors = {name: of_shapes(found, trials, at) for name, found in answers.items()}
    for shape in SHAPES:
        cells = [
            f"`{found[f'{shape}#0'][0]}` | {np.median(errors[name][shape]):.1%}" for name, found in answers.items()
        ]
        lines.append(f"| {shape} | " + " | ".join(cells) + " |")
    total = [np.concatenate(list(of.values())) for of in errors.values()]
    lines.append("| all, median | " + " | ".join(f"| {np.median(of):.1%}" for of in total) + " |")
    lines.append("| all, 90 % | " + " | ".join(f"| {np.quantile(of, 0.9):.1%}" for of in total) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
