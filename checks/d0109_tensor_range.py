"""Every tensor lies inside its file.

Why: a reader that trusts the offsets reads memory that is not the tensor's.

Remedy: download the shard again.

Example: model.norm.weight: bytes 5368709120 to 5368716288, expected bytes inside a file of 5363012544 bytes.
"""

from day0.spec.check import at_opening

CHECK = at_opening(__name__, __doc__)
