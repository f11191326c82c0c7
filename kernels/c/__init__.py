"""Kernels in C for x86-64 processors: their sources, how they are built, and how weights are handed to them."""
