"""Streams of examples, and several in turn."""

import copy
from concurrent.futures import ThreadPoolExecutor

import torch.utils.data


class ExamplesIterable:
    """Numbers from some files."""

    def __init__(self, files, base):
        self.kwargs, self.base = {"base_files": files}, base

    def __iter__(self):
        yield from range(self.base, self.base + 6)


class CyclingMultiSourcesExamplesIterable:
    """One example of each in turn, until one has no more."""

    def __init__(self, ex_iterables):
        self.ex_iterables = ex_iterables

    def __iter__(self):
        iterators = [iter(one) for one in self.ex_iterables]
        with ThreadPoolExecutor(len(iterators)) as threads:
            ahead = [threads.submit(next, one, None) for one in iterators]
            while True:
                for place, one in enumerate(iterators):
                    example = ahead[place].result()
                    if example is None:
                        return
                    ahead[place] = threads.submit(next, one, None)
                    yield example


class IterableDataset(torch.utils.data.IterableDataset):
    """What a program has."""

    def __init__(self, ex_iterable):
        self._ex_iterable = ex_iterable

    def __iter__(self):
        yield from type(self._ex_iterable)([copy.copy(one) for one in self._ex_iterable.ex_iterables])
