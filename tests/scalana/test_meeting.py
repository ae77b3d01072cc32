"""The run folder in which the starts of one job meet, and the wait for them."""

from __future__ import annotations

import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from scalana.job import gathering, meeting
from scalana.job.meeting import Place, take_place
from scalana.job.parts import Part

TWO = [Part("torchrun x", "torchrun-x", index, 2, 2) for index in range(2)]


def end(place: Place, code: int = 0) -> None:
    """A start ends."""
    meeting.say_start(place, {"command": ["x"], "seconds": 1.0, "exit_code": code})


def ended(place: Place, part: Part, **how: str) -> gathering.Ended:
    """A start that has ended, after a second."""
    return gathering.Ended(place, part, 1.0, 0, **how)  # type: ignore[arg-type]


def test_starts_of_one_job_share_a_folder_and_the_first_reports(tmp_path: Path) -> None:
    late, first = (take_place(str(tmp_path / "run"), part) for part in reversed(TWO))
    assert late.folder == first.folder == str(tmp_path / "run")
    assert (first.reports, late.reports) == (True, False)
    assert not meeting.starts_in(late.folder)["1"]["reports"]


def test_starts_at_the_same_moment_share_a_folder(tmp_path: Path) -> None:
    parts = [Part("job", "job", index, 8, 8) for index in range(8)]
    with ThreadPoolExecutor(8) as pool:
        places = list(pool.map(lambda part: take_place(str(tmp_path / "run"), part), parts))
    assert len({place.folder for place in places}) == 1
    assert [place.reports for place in places] == [True] + 7 * [False]


def test_without_an_index_the_first_that_comes_reports(tmp_path: Path) -> None:
    parts = [Part("job", "job", -1, 4, 4)] * 4
    with ThreadPoolExecutor(4) as pool:
        places = list(pool.map(lambda part: take_place(str(tmp_path / "run"), part), parts))
    assert len({place.name for place in places}) == 4
    assert [place.reports for place in places].count(True) == 1


def test_another_run_in_the_folder_stops_no_start(tmp_path: Path) -> None:
    wanted = str(tmp_path / "run")
    take_place(wanted, Part("other", "other", 0, 2, 2))
    places = [take_place(wanted, part) for part in TWO]
    assert {place.folder for place in places} == {f"{wanted}-2"}
    assert {place.instead_of for place in places} == {wanted}


def test_the_same_job_once_more_gets_a_folder_of_its_own(tmp_path: Path) -> None:
    wanted = str(tmp_path / "run")
    for place in [take_place(wanted, part) for part in TWO]:
        end(place)
    again = [take_place(wanted, part) for part in TWO]
    assert {place.folder for place in again} == {f"{wanted}-2"}


def test_a_job_that_ended_before_all_of_it_began_is_over(tmp_path: Path) -> None:
    end(take_place(str(tmp_path / "run"), TWO[0]))
    assert take_place(str(tmp_path / "run"), TWO[1]).folder == str(tmp_path / "run-2")


def test_a_whole_job_is_refused_where_a_run_has_ended_but_not_where_one_goes_on(tmp_path: Path) -> None:
    wanted = str(tmp_path / "run")
    place = take_place(wanted, Part())
    in_doubt = take_place(wanted, Part())
    assert in_doubt.folder == f"{wanted}-2" and in_doubt.instead_of == wanted
    end(place)
    with pytest.raises(FileExistsError):
        take_place(wanted, Part())
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").touch()
    with pytest.raises(FileExistsError):
        take_place(str(tmp_path / "mine"), Part())
    assert take_place(str(tmp_path / "mine"), TWO[0]).folder == str(tmp_path / "mine-2")


def test_names_of_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Path(take_place(None, TWO[0]).folder).name == "scalana-torchrun-x"
    folders = {take_place(None, Part()).folder for _ in range(3)}
    assert len(folders) == 3


def test_the_head_waits_for_the_others(tmp_path: Path) -> None:
    head, other = (take_place(str(tmp_path / "run"), part) for part in TWO)
    assert gathering.others_of(head, TWO[0]).going
    said: list[str] = []
    later = threading.Timer(0.3, end, [other])
    later.start()
    assert gathering.wait_for_others(ended(head, TWO[0]), said.append).none
    later.join()
    assert not said


def test_the_wait_ends_and_says_for_which_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    head, _ = (take_place(str(tmp_path / "run"), part) for part in TWO)
    said: list[str] = []
    begin = time.monotonic()
    monkeypatch.setattr(gathering, "LEAST_PATIENCE_S", 0.4)
    monkeypatch.setattr(gathering, "_QUIET_S", 0.1)
    lacking = gathering.wait_for_others(ended(head, TWO[0]), said.append)
    assert time.monotonic() - begin >= 0.4
    assert lacking.going and str(lacking) in said[0]
    alone = take_place(str(tmp_path / "alone"), TWO[0])
    assert "1 start of the job" in str(gathering.others_of(alone, TWO[0]))


def test_after_a_sigterm_there_is_little_patience(tmp_path: Path) -> None:
    head = take_place(str(tmp_path / "run"), TWO[0])
    assert gathering.Ended(head, TWO[0], 1000.0, 0).patience_s == 100.0
    assert gathering.Ended(head, TWO[0], 1000.0, 143, is_to_leave=True).patience_s == gathering.GRACE_S


def test_the_head_is_known_by_what_it_wrote(tmp_path: Path) -> None:
    late = take_place(str(tmp_path / "run"), TWO[1])
    assert gathering.head_of(late) == ""
    head = take_place(str(tmp_path / "run"), TWO[0])
    assert gathering.head_of(late) == socket.gethostname()
    end(late, 3)
    end(head)
    assert json.loads((tmp_path / "run" / "run.json").read_text())["exit_code"] == 0
