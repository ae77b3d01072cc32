"""When a job that comes no further hangs."""

from __future__ import annotations

from scalana.live.quiet import Quiet


def test_a_job_is_judged_by_its_own_pauses() -> None:
    quiet = Quiet(None)
    quiet.take(1.0, True)
    assert quiet.limit_s == 60.0 and not quiet.is_due()
    quiet.take(30.0, True)  # a checkpoint
    assert quiet.take(0.5, True)
    assert quiet.limit_s == 300.0
    quiet.take(289.0, True)
    assert not quiet.is_due()
    quiet.take(299.0, True)
    assert quiet.is_due() and not quiet.is_hang(moves=False)  # it is looked at what moves before the limit
    quiet.take(301.0, True)
    assert quiet.is_due() and quiet.is_hang(moves=False) and not quiet.is_hang(moves=True)
    quiet.take(1201.0, True)
    assert quiet.is_hang(moves=True)


def test_a_start_takes_its_time_and_is_no_pause() -> None:
    quiet = Quiet(None)
    quiet.take(200.0, False)
    assert not quiet.is_due()
    assert quiet.take(1.0, True)
    assert quiet.limit_s == 60.0


def test_a_limit_that_is_given() -> None:
    quiet = Quiet(7.0)
    quiet.take(100.0, True)
    assert quiet.is_due() and quiet.is_hang(moves=True)
    assert quiet.take(6.0, True) and not quiet.is_hang(moves=False)
    assert quiet.take(3.0, True) and not quiet.is_due()


def test_a_start_takes_longer_than_a_limit_that_is_given() -> None:
    """Imports and the rest of the start are no hang, however short the pauses of the job are to be."""
    quiet = Quiet(7.0)
    quiet.take(299.0, False)
    assert not quiet.is_hang(moves=False)
    quiet.take(301.0, False)
    assert quiet.is_hang(moves=False)
    long = Quiet(900.0)
    long.take(301.0, False)
    assert not long.is_hang(moves=False)
