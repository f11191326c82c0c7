"""Headers are padded with spaces.

Why: the format demands it; strict readers refuse a header that ends in NUL bytes.

Remedy: write the shard again with safetensors.
"""

from day0.spec.check import at_opening

CHECK = at_opening(__name__, __doc__)
