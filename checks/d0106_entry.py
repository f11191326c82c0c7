"""Every entry of a header has a printable name, a dtype, a shape and two offsets.

Why: an entry that cannot be understood is a tensor that would be left out silently.

Remedy: write the shard again with safetensors.

Example: model.norm.weight: {'dtype': 'BF16', 'shape': [-1]} in model.safetensors.
"""

from day0.spec.check import at_opening

CHECK = at_opening(__name__, __doc__)
