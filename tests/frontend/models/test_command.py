"""``scalana psg --model``: what it shows, and what it says of what it cannot show."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from scalana.cli import main
from tests.needs import torch_or_skip

torch_or_skip()
pytestmark = pytest.mark.slow

NETS = "tests.frontend.models.nets"
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def run(*arguments: str) -> int:
    """The exit code of ``scalana psg``."""
    try:
        return main(["psg", *arguments])
    except SystemExit as error:
        return int(str(error.code))


def test_text_has_modules_with_sums_and_operators_with_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--model", f"{NETS}:decoder") == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    lines = shown.out.splitlines()
    assert lines[0].startswith("region  Decoder  tests/frontend/models/nets.py:")
    assert lines[0].endswith("7.6 MFLOP  131 k parameters")
    (up,) = (line for line in lines if "layers.0.mlp.up " in line)
    assert "torch/nn/modules/linear.py:" in up and "Linear" in up and "12.3 k parameters" in up
    product = lines[lines.index(up) + 1]
    assert "op  aten.linear  :" in product and "float32[2, 16, 192]" in product and "786 kFLOP" in product
    assert lines[-1].startswith("captured by torch.export: 106 operators, 106 with a line; ")


def test_json_has_the_fields_of_any_graph_and_more(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--model", f"{NETS}:early_exit", "--format", "json") == 0
    shown = capsys.readouterr()
    graph = json.loads(shown.out)
    assert graph["schema"] == "scalana.psg/1"
    assert graph["model"] == {"captured_by": "fx", "operators": 5, "operators_with_line": 5}
    assert [warning for warning in graph["warnings"] if "module gate" in warning] == graph["warnings"]
    assert shown.err.count("module gate") == 2
    (first,) = (vertex for vertex in graph["vertices"] if vertex["name"] == "first.0")
    assert first["class"] == "torch.nn.modules.linear.Linear" and first["parameters"] == 32 * 33
    assert first["file"].endswith("linear.py") and first["line"] > 0 and first["called"][1] > 0
    (product,) = (vertex for vertex in graph["vertices"] if vertex["parent"] == first["index"])
    assert (product["shape"], product["dtype"], product["flops"]) == ([4, 32], "float32", 2 * 4 * 32 * 32)
    (last,) = (vertex for vertex in graph["vertices"] if vertex["name"] == "last")
    assert last["flops"] is None and last["bytes"] is None and last["uncounted"] == 1
    assert all(edge[2] == "data" for edge in graph["edges"]) and graph["edges"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--model", "no_such_nets:make"], 1, "there is no module no_such_nets"),
        (["--model", f"{NETS}:no_such_net"], 1, "there is no no_such_net"),
        (["--model", "nets.py:make"], 1, "such as nets:make"),
        (["--model", "nets"], 1, "write MODULE:NAME, such as nets:make"),
        (["--model", f"{NETS}:broken"], 1, "raises RuntimeError: no checkpoint here"),
        (["--model", f"{NETS}:NOT_A_MODEL"], 1, "a int is neither a model nor callable"),
        (["--model", f"{NETS}:batch"], 1, "gives a dict"),
        (["--model", f"{NETS}:Gate"], 1, "needs arguments (width)"),
        (["--model", f"{NETS}:Decoder", "--inputs", "2x8:int64", "3x4"], 1, "needs 1"),
        (["--model", f"{NETS}:Decoder", "--inputs", "2xb"], 1, "4x128:int64"),
        (["--model", f"{NETS}:Decoder", "--inputs", "2x8:word"], 1, "no type word"),
        (["--model", f"{NETS}:Decoder", "--inputs", f"{NETS}:broken"], 1, "no checkpoint here"),
        (["--model", f"{NETS}:Decoder", "train.py"], 2, "--model excludes PATH"),
        (["--inputs", "4x4"], 2, "--model"),
        ([], 2, "PATH"),
    ],
)
def test_what_is_wrong_is_said(capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, words: str) -> None:
    assert run(*arguments) == code
    shown = capsys.readouterr()
    assert words in shown.err and shown.out == ""


def test_missing_inputs_are_a_warning_that_says_what_to_write(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--model", f"{NETS}:EarlyExit") == 0
    shown = capsys.readouterr()
    assert "EarlyExit.forward(x) needs 1; write --inputs 4x128" in shown.err
    assert "FLOPs unknown" in shown.out and "gate.more" in shown.out


def test_models_of_the_working_directory_and_what_they_print(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own_net.py").write_text("import torch\nprint('loading')\nMODEL = torch.nn.Linear(2, 2)\n")
    (tmp_path / "half_net.py").write_text("import no_such_package\n")
    monkeypatch.chdir(tmp_path)
    path = list(sys.path)
    assert run("--model", "own_net:MODEL", "--inputs", "3x2", "--format", "json") == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["vertices"][0]["flops"] == 24 and "loading" in shown.err
    assert run("--model", "half_net:MODEL") == 1
    assert "half_net imports no_such_package, which is not installed" in capsys.readouterr().err
    assert sys.path == path


def test_without_torch_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert run("--model", f"{NETS}:decoder") == 1
    shown = capsys.readouterr()
    assert "--model needs torch" in shown.err and "pip install torch" in shown.err
