"""Traffic between hosts, from what the records of their ranks count by address."""

from __future__ import annotations

from scalana.graphs.host_traffic import host_traffic


def test_connections_of_all_ranks_of_a_host_are_one_way() -> None:
    metas = [
        {"host": "a", "sockets": "10.0.0.1 10.0.0.2 100 2000000 2000000 70 5\n10.0.0.1 10.0.0.1 9 9 9 9 9"},
        {"host": "a", "sockets": "fd00::1 10.0.0.2 50 1000000 500000 900 0"},
        {"host": "b", "sockets": "10.0.0.2 fd00::1 7 1000000 1000000 8 0"},
    ]
    there, back = host_traffic(metas)
    assert (there.source, there.target, there.nbytes, there.resent_bytes) == ("a", "b", 150, 5)
    assert (there.busy_s, there.longest_s, there.bytes_per_s) == (3.0, 2.0, 70.0)
    assert (back.source, back.target, back.nbytes) == ("b", "a", 7)


def test_an_address_that_several_hosts_have_is_none_of_theirs() -> None:
    bridge = "172.17.0.1 10.0.0.3 100 1 1 1 0"
    metas = [
        {"host": "a", "sockets": bridge},
        {"host": "b", "sockets": bridge},
        {"host": "c", "sockets": "10.0.0.3 172.17.0.1 100 1 1 1 0"},
    ]
    assert host_traffic(metas) == ()


def test_lines_that_are_not_understood_count_nothing() -> None:
    assert host_traffic([{"host": "a"}, {"host": "a", "sockets": "10.0.0.1 10.0.0.2 1 2\n\n1 2 3 4 5 6 x"}]) == ()
