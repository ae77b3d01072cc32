"""Layers that take time without computing, for programs that emulate the stages of a pipeline."""

import time

import torch
from torch import nn


class Pause(torch.autograd.Function):
    """Sleeps, and twice as long in the backward."""

    @staticmethod
    def forward(ctx, x, seconds):
        ctx.seconds = seconds
        time.sleep(seconds)
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        time.sleep(2 * ctx.seconds)
        return gradient, None


class PlantedPause(torch.autograd.Function):
    """The same again, by lines of its own."""

    @staticmethod
    def forward(ctx, x, seconds):
        ctx.seconds = seconds
        time.sleep(seconds)
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        time.sleep(2 * ctx.seconds)
        return gradient, None


class Layer(nn.Linear):
    """A small layer that takes so many seconds."""

    def __init__(self, width, seconds):
        super().__init__(width, width)
        self.seconds = seconds

    def forward(self, x):
        x = x + torch.tanh(super().forward(x))
        return Pause.apply(x, self.seconds) if self.seconds else x


class Head(Layer):
    """What a last stage has beside its layers."""

    def forward(self, x):
        return PlantedPause.apply(x, self.seconds) if self.seconds else x
