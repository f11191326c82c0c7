"""Tiny checkpoints in the layout of public releases, with reference logits computed by transformers in float32.

`names()` lists them, `build(name, out)` writes one into OUT/<name>, `checkpoint(name)` builds it once per machine. `every()` adds those
of Kimi K3, which no class of transformers computes: its logits come from a naive reference in float64.
The command `python -m tests.zoo OUT [name ...]` writes several.
"""
from .assembly import build, checkpoint, every
from .family import names

__all__ = ["build", "checkpoint", "every", "names"]
