"""Every tensor is in the shard that the index names.

Why: a reader that opens only the named shard does not find it; day0 takes it from where it is.

Remedy: download index and shards of one revision.

Example: model.norm.weight: in model-00029-of-00030.safetensors, expected in model-00030-of-00030.safetensors.
"""

from day0.spec.check import at_opening

CHECK = at_opening(__name__, __doc__)
