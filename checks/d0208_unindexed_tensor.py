"""Every tensor of a shard is in the index.

Why: loaders that go by the index leave it out; day0 uses it where the model needs it.

Remedy: download index and shards of one revision.

Example: model.norm.weight: in model-00030-of-00030.safetensors, not in the index.
"""

from day0.spec.check import at_opening

CHECK = at_opening(__name__, __doc__)
