"""The data sets that a mixture takes its samples from, and what they are called.

A mixture is a data set that holds several others: in a list or a dictionary (``ConcatDataset``, ``ChainDataset``, what
``interleave_datasets`` makes, a class of the program), or each in an attribute. What wraps a single data set, such as
``Subset``, is looked into.
"""

from __future__ import annotations

import os

from scalana.runtime.typed import Any, Callable, Iterable, Iterator

DEEPEST = 6
"""Data sets inside each other that are looked into."""
MOST = 256
"""Members of one mixture."""
MOST_ATTRIBUTES = 256
"""Of an object, that are looked at."""
_MOST_LOOKED_AT = 256
"""Objects in which a name is looked for."""
_NO_SOURCES = frozenset(
    "builtins collections array random types typing logging threading multiprocessing pathlib numpy pandas pyarrow PIL "
    "tokenizers".split()
)
"""Packages whose objects hold data, but are no data sets."""
_CALLED = ("name", "source", "dataset_name")
_LIES_AT = ("root", "path", "filename", "file", "data_dir", "folder")
_LISTS = ("files", "urls")
"""Ends of the names of attributes and keys that have several."""
_LONGEST_NAME = 64


def members_of(data_set: Any, is_data_set: Callable[[Any], bool]) -> list[tuple[str, Any]]:
    """The members of a mixture with their names; none where it is no mixture.

    Args:
        data_set: any object.
        is_data_set: whether an object is of a class of data sets of the library.
    """
    seen: set[int] = set()
    level = [data_set]
    for _ in range(DEEPEST):
        inner: list[Any] = []
        for one in level:
            if id(one) in seen:
                continue
            seen.add(id(one))
            found = _mixed(one, is_data_set)
            if len(found) > 1:
                return _named(found, is_data_set)
            inner += [member for _, member in found] or list(_held(one, is_data_set))
        level = inner
    return []


def _mixed(holder: Any, is_data_set: Callable[[Any], bool]) -> list[tuple[str, Any]]:
    """The data sets of the largest collection of them that an object holds, else those in its attributes; with keys."""
    best: list[tuple[str, Any]] = []
    alone: list[tuple[str, Any]] = []
    for key, value in _attributes(holder):
        if is_data_set(value):
            alone.append((key, value))
            continue
        many = _collection(value)
        if len(many) > len(best) and all(is_data_set(one) or _loads(one) for _, one in many):
            best = many
    distinct = {id(one): (key, one) for key, one in (best or alone)}
    return list(distinct.values()) if len(distinct) <= MOST else []


def _held(holder: Any, is_data_set: Callable[[Any], bool]) -> Iterator[Any]:
    """What an object that is no mixture may wrap: objects in attributes that load data."""
    for _, value in _attributes(holder):
        if is_data_set(value) or _loads(value):
            yield value
        else:  # such as the stages of a pipeline, of which one may be a data set
            yield from (one for _, one in _collection(value) if is_data_set(one))


def _attributes(holder: Any) -> Iterable[tuple[str, Any]]:
    held = getattr(holder, "__dict__", None)
    return list(held.items())[:MOST_ATTRIBUTES] if isinstance(held, dict) else ()


def _collection(value: Any) -> list[tuple[str, Any]]:
    """What a list, a tuple or a dictionary holds, with keys where they are texts."""
    if isinstance(value, dict):
        return [(key if isinstance(key, str) else "", one) for key, one in value.items()] if len(value) <= MOST else []
    if isinstance(value, (list, tuple)) and len(value) <= MOST:
        return [("", one) for one in value]
    return []


def _loads(value: Any) -> bool:
    """Whether an object of a class of a program, or of a library of data, hands out items: by number, or in turn."""
    kind = type(value)
    package = kind.__module__.partition(".")[0]
    if package in _NO_SOURCES or package == "torch" or isinstance(value, type):
        return False
    by_number = hasattr(kind, "__getitem__") and hasattr(kind, "__len__")
    return by_number or (hasattr(kind, "__iter__") and hasattr(value, "__dict__"))


def _named(found: list[tuple[str, Any]], is_data_set: Callable[[Any], bool]) -> list[tuple[str, Any]]:
    """Members with names that differ: keys, else names of their own, else classes, else where they, or their files,
    lie."""
    members = [_inside(one, is_data_set) for _, one in found]
    ways: tuple[Callable[[int], str], ...] = (
        lambda at: found[at][0],
        lambda at: _text_of(members[at], _CALLED),
        lambda at: type(members[at]).__name__,
        lambda at: os.path.basename(_text_of(members[at], _LIES_AT).rstrip("/")),
        lambda at: _kept_in(members[at]),
    )
    for way in ways:
        names = [way(at) for at in range(len(found))]
        if all(names) and len(set(names)) == len(names):
            break
    else:
        names = [f"{type(member).__name__} {at}" for at, member in enumerate(members)]
    return [(name[:_LONGEST_NAME], one) for name, (_, one) in zip(names, found, strict=True)]


def _inside(data_set: Any, is_data_set: Callable[[Any], bool]) -> Any:
    """The data set that another one wraps, such as ``Subset``, however often; of what is none, what it reads from."""
    for _ in range(DEEPEST):
        held = [value for _, value in _attributes(data_set) if not isinstance(value, (dict, list, tuple))]
        inner = list(filter(is_data_set if is_data_set(data_set) else _loads, held))
        if len(inner) != 1:
            break
        data_set = inner[0]
    return data_set


def _text_of(holder: Any, keys: tuple[str, ...]) -> str:
    """The first of some attributes that is a text, or a path."""
    held = dict(_attributes(holder))
    for key in keys:
        value = held.get(key, held.get("_" + key))
        if isinstance(value, (str, os.PathLike)):
            return str(value)
    return ""


def _kept_in(holder: Any) -> str:
    """What the names of the files in an object, however deep, have in common; or the generator that it calls."""
    level = [("", holder)]
    looked_at = 0
    for _ in range(DEEPEST):
        texts = [text for key, one in level if (text := _text_at(key, one))]
        if texts:
            return (os.path.commonprefix(texts).rstrip("0123456789-_. ") if len(texts) > 1 else "") or texts[0]
        inner: list[tuple[str, Any]] = []
        for key, one in level[: _MOST_LOOKED_AT - looked_at]:
            inner += [(inside or key, value) for inside, value in (*_attributes(one), *_collection(one))]
            inner += [("", one.__self__)] if hasattr(one, "__func__") else []
        looked_at += len(level)
        level = inner
    return ""


def _text_at(key: str, value: Any) -> str:
    """The name of a file, or of a generator, if that is what is behind a key."""
    if isinstance(value, (str, os.PathLike)):
        return os.path.basename(str(value).rstrip("/")) if key in _LIES_AT or key.endswith(_LISTS) else ""
    return str(getattr(value, "__name__", "")) if key == "generator" else ""
