"""No two tensors of a shard share bytes.

Why: two weights that share bytes load without an error and one of them is wrong.

Remedy: write the shard again with safetensors, from a copy that is known to be good.

Example: lm_head.weight / model.norm.weight: overlap of 7168 bytes in model.safetensors.
"""

from day0.spec.check import at_opening

CHECK = at_opening(__name__, __doc__)
