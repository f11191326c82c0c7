"""No header names a tensor twice.

Why: most JSON parsers keep the last entry silently, others refuse the file: two tools load two different models.

Remedy: write the shard again with safetensors, from a copy that is known to be good.

Example: model.layers.3.mlp.up_proj.weight: duplicate key: 2 entries in the header of model-00002-of-00030.safetensors.
"""

from day0.spec.check import at_opening

CHECK = at_opening(__name__, __doc__)
