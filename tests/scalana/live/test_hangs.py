"""Jobs that hang are explained while they do; jobs that are slow raise no alarm."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.long import also
from tests.needs import torch_or_skip
from tests.scalana.live.hanging import watched, wrong_with


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["endless", *also("loader", "server")])
def test_a_hang_is_explained(kind: str, tmp_path: Path) -> None:
    torch_or_skip()
    done = watched(kind, tmp_path)
    assert wrong_with(kind, done) == ""
    assert done.code != 0  # it was ended
    assert done.said[0] in done.printed and "the job hangs: no rank has come further since" in done.printed
    assert any(line.endswith(" main") for line in done.said[done.said.index("") :])  # the stacks


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["checkpoint", *also("evaluation")])
def test_a_slow_job_raises_no_alarm(kind: str, tmp_path: Path) -> None:
    torch_or_skip()
    done = watched(kind, tmp_path)
    assert (done.code, done.said) == (0, []), done.printed
    assert "hangs" not in done.printed
