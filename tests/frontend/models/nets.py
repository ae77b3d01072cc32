"""Models of the kinds that people train, small; each with what to call it with."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional


class RMSNorm(nn.Module):
    """Divides by the root of the mean square."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class Rotary(nn.Module):
    """Angles by position, without gradients."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("frequencies", 10000.0 ** (-torch.arange(0, width, 2) / width))

    @torch.no_grad()
    def forward(self, length: int) -> tuple[torch.Tensor, torch.Tensor]:
        angles = torch.outer(torch.arange(length, device=self.frequencies.device).float(), self.frequencies)
        both = torch.cat([angles, angles], -1)
        return both.cos(), both.sin()


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Turn pairs of numbers by their angles."""
    low, high = x.chunk(2, -1)
    return x * cos + torch.cat([-high, low], -1) * sin


class Attention(nn.Module):
    """Causal attention with fewer heads of keys than of queries."""

    def __init__(self, width: int, heads: int, key_heads: int) -> None:
        super().__init__()
        self.size = width // heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, key_heads * self.size, bias=False)
        self.value = nn.Linear(width, key_heads * self.size, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        heads = [
            part(x).view(batch, length, -1, self.size).transpose(1, 2) for part in (self.query, self.key, self.value)
        ]
        query, key, value = heads
        query, key = rotated(query, cos, sin), rotated(key, cos, sin)
        times = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(times, 1), value.repeat_interleave(times, 1)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class SwiGLU(nn.Module):
    """The gated block."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(functional.silu(self.gate(x)) * self.up(x))


class DecoderLayer(nn.Module):
    """One layer of the decoder."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention_norm = RMSNorm(width)
        self.attention = Attention(width, 4, 2)
        self.mlp_norm = RMSNorm(width)
        self.mlp = SwiGLU(width, 3 * width)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.attention_norm(x), cos, sin)
        return x + self.mlp(self.mlp_norm(x))


class Decoder(nn.Module):
    """A decoder in the manner of Llama."""

    def __init__(self, width: int = 64, layers: int = 2, words: int = 256) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.rotary = Rotary(width // 4)
        self.layers = nn.ModuleList(DecoderLayer(width) for _ in range(layers))
        self.norm = RMSNorm(width)
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        cos, sin = self.rotary(tokens.shape[1])
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.head(self.norm(x))


class Experts(nn.Module):
    """A mixture of experts: each token goes to the one that its scores say. ``skip`` leaves out experts without any."""

    def __init__(self, width: int = 32, experts: int = 4, skip: bool = False) -> None:
        super().__init__()
        self.router = nn.Linear(width, experts)
        self.experts = nn.ModuleList(SwiGLU(width, 2 * width) for _ in range(experts))
        self.skip = skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight, chosen = self.router(x).softmax(-1).max(-1)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows = torch.where(chosen == number)[0]
            if self.skip and rows.numel() == 0:
                continue
            out[rows] = expert(x[rows]) * weight[rows, None]
        return out


class Residual(nn.Module):
    """Two convolutions beside a short cut."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(outside)
        self.second = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(outside)
        self.short = nn.Conv2d(inside, outside, 1, stride, bias=False) if stride > 1 else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = functional.relu(self.first_norm(self.first(x)))
        return functional.relu(self.second_norm(self.second(y)) + self.short(x))


class ResNet(nn.Module):
    """A small residual network."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
        self.stages = nn.Sequential(Residual(16, 16, 1), Residual(16, 32, 2), Residual(32, 64, 2))
        self.head = nn.Linear(64, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.head(self.stages(self.stem(image)).mean((2, 3)))


class Gate(nn.Module):
    """Does more for some values than for others."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.score = nn.Linear(width, 1)
        self.more = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.score(x).sum() > 0:
            return self.more(x)
        return x


class EarlyExit(nn.Module):
    """Has a module in the middle whose control flow depends on data."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Linear(width, width), nn.GELU())
        self.gate = Gate(width)
        self.last = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.gate(self.first(x)))


class Twice(nn.Module):
    """Calls one module twice in a row."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.norm(x))


class Conditional(nn.Module):
    """Control flow that export can capture."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda y: self.linear(y), lambda y: y.cos(), (x,))


class Store:
    """What a model has seen so far: of a type that export does not know."""

    def __init__(self) -> None:
        self.rows: list[torch.Tensor] = []


class Remembers(nn.Module):
    """Looks at what it was given before, too, and returns the store that it keeps it in."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, store: Store | None = None) -> tuple[torch.Tensor, Store]:
        store = store or Store()
        store.rows.append(x)
        return self.linear(torch.cat(store.rows)), store


def small() -> nn.Module:
    """Modules in modules."""
    return nn.Sequential(nn.Linear(8, 8), nn.Sequential(nn.ReLU(), nn.Linear(8, 2)))


def traced() -> tuple[nn.Module, torch.Tensor]:
    """A graph that somebody made of a model."""
    return torch.fx.symbolic_trace(small()), torch.zeros(4, 8)


def exported() -> torch.export.ExportedProgram:
    """A program that somebody exported."""
    return torch.export.export(small(), (torch.zeros(4, 8),), strict=False)


def compiled() -> tuple[nn.Module, torch.Tensor]:
    """Would be compiled when it is called."""
    return torch.compile(small()), torch.zeros(4, 8)


def twice() -> tuple[nn.Module, torch.Tensor]:
    """The same module, called twice."""
    return Twice(), torch.zeros(4, 8)


def conditional() -> tuple[nn.Module, torch.Tensor]:
    """Both arms are captured."""
    return Conditional(), torch.zeros(4, 8)


def first_rows() -> tuple[nn.Module, dict[str, object]]:
    """Nothing to look at."""
    return Remembers(), {"x": torch.zeros(4, 8)}


def more_rows() -> tuple[nn.Module, dict[str, object]]:
    """With rows from before."""
    store = Store()
    store.rows.append(torch.zeros(12, 8))
    return Remembers(), {"x": torch.zeros(4, 8), "store": store}


def batch() -> dict[str, torch.Tensor]:
    """Inputs by name."""
    return {"input": torch.zeros(5, 8)}


def encoder() -> tuple[nn.Module, torch.Tensor]:
    """torch's own transformer."""
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    return nn.TransformerEncoder(layer, 2), torch.zeros(2, 16, 32)


def decoder() -> tuple[nn.Module, torch.Tensor]:
    """In the manner of Llama."""
    return Decoder(), torch.zeros(2, 16, dtype=torch.int64)


def experts() -> tuple[nn.Module, torch.Tensor]:
    """Routing by data, always to all experts."""
    return Experts(), torch.zeros(24, 32)


def skipping_experts() -> tuple[nn.Module, torch.Tensor]:
    """Routing by data, that leaves out experts without tokens."""
    return Experts(skip=True), torch.zeros(24, 32)


def resnet() -> tuple[nn.Module, torch.Tensor]:
    """Convolutions."""
    return ResNet(), torch.zeros(2, 3, 32, 32)


def early_exit() -> tuple[nn.Module, torch.Tensor]:
    """A branch by data."""
    return EarlyExit(), torch.zeros(4, 32)


def huge() -> nn.Module:
    """Parameters that would take 400 GB."""
    return nn.Sequential(*(nn.Linear(100_000, 100_000, bias=False) for _ in range(10)))


def needs_data() -> nn.Module:
    """Cannot be made without data."""
    assert torch.ones(3).sum().item() == 3
    return nn.Linear(4, 4)


def broken() -> nn.Module:
    """Fails."""
    raise RuntimeError("no checkpoint here")


ALREADY_MADE = nn.Linear(8, 8)
NOT_A_MODEL = 3
