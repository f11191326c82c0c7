"""No tensor is in two shards.

Why: one loader refuses the release, another lets the last copy win; where the copies differ, two tools run two models.

Remedy: delete the copy that the index does not pick.

Example: lm_head.weight: in model-00001-of-00030.safetensors and in model-00030-of-00030.safetensors; their bytes differ.
"""

from day0.spec.check import at_opening

CHECK = at_opening(__name__, __doc__)
