"""What names of functions tell of those who are in them."""

from __future__ import annotations

import pytest

from scalana.graphs.attribution.placing import rests_inside


@pytest.mark.parametrize("name", ["fsync", "__write", "pwrite64", "__open64_nocancel", "clock_nanosleep@@GLIBC_2.17"])
def test_functions_that_ask_the_system_for_what_takes_time(name):
    assert rests_inside(name)


@pytest.mark.parametrize("name", ["memcpy", "sched_yield", "writer", "powf64", "", "SPARTA_NS::Output::write"])
def test_functions_that_do_not(name):
    assert not rests_inside(name)
