"""Every tensor has as many bytes as its shape and type need.

Why: a tensor that is declared larger than its data makes a reader run into the next tensor, or out of the file.

Remedy: write the shard again with safetensors, or download it again.

Example: model.norm.weight: 14336 bytes, expected 7168 bytes for BF16 [3584].
"""

from day0.spec.check import at_opening

CHECK = at_opening(__name__, __doc__)
