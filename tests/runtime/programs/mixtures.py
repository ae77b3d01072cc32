"""Gets batches of mixtures of data sets, of several kinds; prints what it got, and what was drawn at random."""

import random
import sys
from pathlib import Path

import torch
from torch.utils.data import ChainDataset, ConcatDataset, DataLoader, Dataset, IterableDataset, Subset

sys.path.insert(0, str(Path(__file__).parent))
from datasets import iterable_dataset as interleaved  # noqa: E402


class Numbers(Dataset):
    """Some numbers, each after a draw."""

    def __init__(self, name, base):
        self.name, self.base = name, base

    def __len__(self):
        return 6

    def __getitem__(self, index):
        if index >= 6:
            raise IndexError(index)
        return self.base + index + 0 * random.randrange(9)


class Several(Numbers):
    """Gives several at once."""

    def __getitems__(self, indices):
        return [self[index] for index in indices]


class Stream(IterableDataset):
    """The same in turn."""

    def __init__(self, base):
        self.base = base

    def __iter__(self):
        yield from range(self.base, self.base + 5)


class Mixed(IterableDataset):
    """A mixture of the program's own: takes from its parts by chance."""

    def __init__(self, parts):
        self.parts = parts

    def __iter__(self):
        draw, items = random.Random(3), {name: iter(part) for name, part in self.parts.items()}
        while items:
            name = draw.choice(sorted(items))
            try:
                yield next(items[name])
            except StopIteration:
                del items[name]


def loaders(workers):
    whole = ConcatDataset([Numbers("low", 0), Subset(Several("high", 100), range(4))])
    yield DataLoader(whole, batch_size=4, num_workers=workers)
    yield DataLoader(Subset(whole, [0, 7, 1]), batch_size=2, num_workers=workers)
    yield DataLoader(Mixed({"low": Stream(0), "high": Stream(100)}), batch_size=4, num_workers=workers)
    yield DataLoader(ChainDataset([Stream(0), Stream(100)]), batch_size=None, num_workers=workers)
    yield DataLoader(Numbers("alone", 0), batch_size=4, num_workers=workers)
    streams = interleaved.ExamplesIterable(["web-0", "web-1"], 1), interleaved.ExamplesIterable(["books-0"], 101)
    parts = interleaved.CyclingMultiSourcesExamplesIterable(list(streams))
    yield DataLoader(interleaved.IterableDataset(parts), batch_size=4, num_workers=workers)


if __name__ == "__main__":
    torch.manual_seed(0)
    random.seed(0)
    for loader in loaders(int(sys.argv[1])):
        print([batch.tolist() if isinstance(batch, torch.Tensor) else batch for batch in loader])
    print(random.random(), float(torch.rand(1)), Numbers("", 5)[2], list(Stream(7)), Stream.__iter__.__name__)
