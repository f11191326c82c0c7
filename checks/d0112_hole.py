"""No byte between two tensors is unowned.

Why: the format demands it; a hole is left where a tool removed or resized a tensor, and strict readers refuse the file.

Remedy: write the shard again with safetensors.

Example: model.norm.weight: hole of 512 bytes before it, in model.safetensors.
"""

from day0.spec.check import at_opening

CHECK = at_opening(__name__, __doc__)
