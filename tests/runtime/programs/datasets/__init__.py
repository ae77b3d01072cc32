"""Stands for the library of this name: a mixture of streams that threads read ahead, from copies of them."""
