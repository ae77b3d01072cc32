"""How places, ranks and amounts are written, the same in every report."""

from __future__ import annotations

import os
from collections.abc import Iterable

from scalana.graphs.readers.processes.process_names import ProcessNames


def relative(file: str, cwd: str) -> str:
    """``file`` relative to the working directory of the job where it lies below it, and unchanged elsewhere.

    >>> relative("/home/me/job/src/train.py", "/home/me/job")
    'src/train.py'
    >>> relative("/usr/lib/python3/random.py", "/home/me/job")
    '/usr/lib/python3/random.py'
    """
    if not cwd or not os.path.isabs(file):
        return file
    below = os.path.join(os.path.normpath(cwd), "")
    normal = os.path.normpath(file)
    return normal[len(below) :] if normal.startswith(below) else file


def near(file: str, cwd: str) -> str:
    """Like :func:`relative`, for reading: also from up to two folders above, as where programs run in a build folder.

    >>> near("/home/me/solver/src/mesh.c", "/home/me/solver/build/bin")
    '../../src/mesh.c'
    >>> near("/usr/lib/python3/random.py", "/home/me/job")
    '/usr/lib/python3/random.py'
    """
    found = relative(file, cwd)
    if not cwd or not os.path.isabs(found):
        return found
    way = os.path.relpath(found, cwd)
    together = os.path.commonpath([os.path.normpath(found), os.path.normpath(cwd)])
    return way if together.count(os.sep) > 1 and way.count(os.pardir + os.sep) <= 2 else found


def shortest(files: Iterable[str]) -> dict[str, str]:
    """For each file its name without folders, or the whole of it where another file has the same name.

    >>> shortest(["src/train.py", "lib/util.py", "src/util.py"])
    {'src/train.py': 'train.py', 'lib/util.py': 'lib/util.py', 'src/util.py': 'src/util.py'}
    """
    different = list(dict.fromkeys(files))
    bases = [os.path.basename(file) for file in different]
    return {file: base if bases.count(base) == 1 else file for file, base in zip(different, bases, strict=True)}


def place(file: str, line: int, end_line: int = 0) -> str:
    """``file:line``, as editors and terminals make links of; the file alone where the line is unknown.

    >>> place("train.py", 84)
    'train.py:84'
    >>> place("train.py", 84, 86)
    'train.py:84-86'
    """
    return f"{file}:{line}{f'-{end_line}' if end_line > line else ''}" if line > 0 else (file or "(no place)")


def ranks(numbers: Iterable[int], total: int = 0) -> str:
    """Ranks of one world as words, consecutive ones as a range.

    >>> ranks([2]), ranks([0, 1, 2, 5, 7], 16), ranks(range(4), 4)
    ('rank 2', 'ranks 0-2, 5, 7', 'all 4 ranks')
    """
    return ProcessNames().many(numbers, total)


def seconds(value: float) -> str:
    """An amount of time, to about three digits.

    >>> seconds(123.84), seconds(12.04), seconds(1.5), seconds(0.1239), seconds(0.00042)
    ('123.8 s', '12.0 s', '1.50 s', '124 ms', '0.4 ms')
    """
    if abs(value) >= 10:
        return f"{value:.1f} s"
    if abs(value) >= 0.9995:
        return f"{value:.2f} s"
    if abs(value) >= 0.00995:
        return f"{value * 1e3:.0f} ms"
    return f"{value * 1e3:.1f} ms"


def span(least: float, most: float) -> str:
    """Two amounts of time, the unit once where both have the same.

    >>> span(0.19, 0.38), span(0.019, 3.8), span(1.0, 12.0)
    ('190 to 380 ms', '19 ms to 3.80 s', '1.00 to 12.0 s')
    """
    low, high = seconds(least), seconds(most)
    number, _, unit = low.partition(" ")
    return f"{number if high.endswith(f' {unit}') else low} to {high}"


def amount(value: float) -> str:
    """Seconds in a cell of a table, without the unit.

    >>> amount(1234.5), amount(123.45), amount(1.5), amount(0.0123)
    ('1234', '123.5', '1.50', '0.012')
    """
    return f"{value:.{0 if value >= 1000 else 1 if value >= 100 else 2 if value >= 0.1 else 3}f}"


def rank_seconds(value: float) -> str:
    """Seconds summed over ranks.

    >>> rank_seconds(48.4), rank_seconds(0.5)
    ('48.4 rank-seconds', '0.50 rank-seconds')
    """
    return f"{value:.{1 if abs(value) >= 9.95 else 2 if abs(value) >= 0.0995 else 4}f} rank-seconds"


def data(count: float) -> str:
    """An amount of data.

    >>> data(512), data(30.5e6), data(2.41e9)
    ('512 B', '30.5 MB', '2.41 GB')
    """
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} B"


def rate(bytes_per_s: float) -> str:
    """A bandwidth.

    >>> rate(30.5e6)
    '30.5 MB/s'
    """
    return f"{data(bytes_per_s)}/s"


def percent(share: float) -> str:
    """A share of one.

    >>> percent(0.834), percent(0.0213), percent(0.0001), percent(0)
    ('83 %', '2.1 %', '<0.1 %', '0 %')
    """
    if 0 < share < 0.0005:
        return "<0.1 %"
    if share == 0 or share >= 0.0995:
        return f"{share * 100:.0f} %"
    return f"{share * 100:.1f} %"


def waiters(rank: int, ranks: int, processes: ProcessNames) -> tuple[str, str]:
    """The ranks that wait, one of them by name, and the verb for it."""
    who = processes.one(rank)
    return (f"{who} and {ranks - 1} more", "wait") if ranks > 1 else (who, "waits")
