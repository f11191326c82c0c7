"""Headers are padded with spaces.

Why: the format demands it; strict readers refuse a header that ends in NUL bytes.

Remedy: write the shard again with safetensors.

Example: model.safetensors: header padded with 6 NUL bytes; strict readers will refuse this file.
"""

from day0.spec.check import at_opening

CHECK = at_opening(__name__, __doc__)
