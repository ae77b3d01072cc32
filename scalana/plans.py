"""Plans for pipelines, at the edges: from a run folder or a file of layer costs to a folder with a plan."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scalana import console
from scalana.errors import CommandError, RunDataError

if TYPE_CHECKING:
    from scalana.detectors.pipeline.detector import Pipeline
    from scalana.detectors.pipeline.plans.document import Written
    from scalana.detectors.pipeline.plans.profile import LayerProfile
    from scalana.detectors.pipeline.plans.proposal import Proposal


def read_profile(
    source: str, ranks: int | None = None, microbatches: int | None = None, pipeline: int = 1
) -> LayerProfile:
    """Layer costs of a run folder, of its ``pipeline``-th pipeline, or of a file.

    Raises:
        CommandError: where there are none, saying what to try.
    """
    if os.path.isdir(source):
        if ranks is not None or microbatches is not None:
            raise CommandError(
                "--ranks and --microbatches need a file of layer costs: write one with `scalana pipeline layers` first"
            )
        return profile_of_run(source, pipeline)
    from scalana.detectors.pipeline.plans.profile import ProfileError
    from scalana.detectors.pipeline.plans.profile_file import read_document

    data = read_json(source)
    try:
        return read_document(data, source, ranks, microbatches)
    except ProfileError as error:
        raise CommandError(str(error)) from error


def read_json(path: str) -> Any:
    """What a JSON file holds.

    Raises:
        CommandError: where it cannot be read.
    """
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or error}") from error
    except ValueError as error:
        raise CommandError(f"{path} is neither a run folder nor JSON: {error}") from error


def profile_of_run(folder: str, number: int = 1) -> LayerProfile:
    """Layer costs of a pipeline of a run, counted from 1.

    Raises:
        CommandError: where no pipeline was recorded, or its replay is not to be trusted.
    """
    from scalana.detectors.pipeline.diagnosis.diagnose import what_is_no_layer
    from scalana.detectors.pipeline.plans.from_run import profile_of

    pipeline = pipeline_of(folder, number)
    found = pipeline.diagnosis.attribution
    if not found.trusted:
        raise CommandError(
            f"{folder}: the replay differs from the recorded steps by {found.replay_error:+.1%}, too much for "
            "planning; record more steps on a quieter machine"
        )
    layers = pipeline.diagnosis.layers
    for said in () if layers is None else what_is_no_layer(layers):
        console.complain(f"{folder}: {said}")
    return profile_of(pipeline.diagnosis)


def pipeline_of(folder: str, number: int) -> Pipeline:
    """A pipeline of a run, counted from 1.

    Raises:
        CommandError: where there is none.
    """
    from scalana import api
    from scalana.detectors.pipeline.detector import SECTION

    try:
        analysis = api.analyze(folder).analysis
    except RunDataError as error:
        raise CommandError(str(error)) from error
    except Exception as error:
        if os.environ.get("SCALANA_DEBUG"):
            raise
        raise CommandError(f"could not analyse {folder}: {str(error) or type(error).__name__}") from error
    pipelines = analysis.sections.get(SECTION)
    if not isinstance(pipelines, list) or not pipelines:
        raise CommandError(f"{folder}: no pipeline was recorded on all ranks (see docs/pipelines.md)")
    if not 1 <= number <= len(pipelines):
        raise CommandError(f"{folder}: there is no pipeline {number}; {len(pipelines)} were recorded")
    found: Pipeline = pipelines[number - 1]
    return found


def write_profile(profile: LayerProfile, path: str) -> None:
    """Write a file of layer costs.

    Raises:
        CommandError: where it cannot be written.
    """
    from scalana.detectors.pipeline.plans.profile_file import to_document

    _write(Path(path), json.dumps(to_document(profile), indent=1) + "\n")


def write_proposal(proposal: Proposal, folder: str) -> list[str]:
    """Write a plan into a folder; the names of its files.

    Raises:
        CommandError: where it cannot be written.
    """
    where = Path(folder)
    try:
        where.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"{folder}: {error.strerror or error}") from error
    written = []
    for name, content in contents(proposal):
        _write(where / name, content)
        written.append(str(where / name))
    return written


def contents(proposal: Proposal) -> Iterator[tuple[str, str]]:
    """Names and contents of the files of a plan."""
    from scalana.detectors.pipeline.model.torch_csv import write_torch_csv
    from scalana.detectors.pipeline.plans.document import ORDER, to_json

    yield "plan.json", json.dumps(to_json(proposal), indent=1, allow_nan=False) + "\n"
    yield ORDER, write_torch_csv(proposal.plan.program)
    for means in proposal.means:
        if means.plan is None:
            continue
        if means.file:
            yield means.file, write_torch_csv(means.plan.program)
        yield settings_file(means.engine), "\n".join(means.settings) + "\n"


def read_written(path: str, engine: str = "torch") -> Written:
    """A plan that was written: its folder, or its `plan.json`; for another engine its best one, with its settings.

    Raises:
        CommandError: where there is none.
    """
    from scalana.detectors.pipeline.model.actions import OrderError
    from scalana.detectors.pipeline.plans.document import means_in, read_means, read_plan
    from scalana.detectors.pipeline.plans.profile import ProfileError

    file = Path(path) / "plan.json" if os.path.isdir(path) else Path(path)
    data = read_json(str(file))
    if not isinstance(data, dict) or "order" not in data:
        raise CommandError(f"{file} is not a plan; `scalana pipeline plan` writes one")

    def beside(name: str) -> str:
        try:
            return (file.parent / name).read_text(encoding="utf-8")
        except OSError as error:
            raise CommandError(f"{file.parent / name}: {error.strerror or error}; it belongs to {file}") from error

    try:
        if engine == "torch":
            return read_plan(data, beside(str(data["order"])), str(file))
        means = means_in(data, engine, str(file))
        order = beside(str(means["file"])) if means["file"] else None
        return read_means(data, engine, beside(settings_file(str(means["engine"]))), order, str(file))
    except (ProfileError, OrderError) as error:
        raise CommandError(str(error)) from error


def settings_beside(path: str, engine: str) -> Path:
    """The file with an engine's settings of a plan, given by its folder or its `plan.json`."""
    from scalana.detectors.pipeline.plans.means import SUFFIXES

    name = next(name for name in SUFFIXES if name.lower() == engine)
    return (Path(path) if os.path.isdir(path) else Path(path).parent) / settings_file(name)


def file_of_module(name: str) -> str:
    """The file that importing a module begins with, found without running anything; "" if there is none."""
    from importlib.machinery import PathFinder

    found = PathFinder.find_spec(name.partition(".")[0], ["", *sys.path])
    return os.path.abspath(found.origin) if found is not None and found.origin else ""


def settings_file(engine: str) -> str:
    """The name of the file with an engine's settings: `megatron.args`."""
    from scalana.detectors.pipeline.plans.means import SUFFIXES

    return f"{engine.lower()}.{SUFFIXES[engine]}"


def _write(path: Path, content: str) -> None:
    try:
        path.write_text(content, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or error}") from error
