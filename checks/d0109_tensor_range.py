"""Every tensor lies inside its file.

Why: a reader that trusts the offsets reads memory that is not the tensor's.

Remedy: download the shard again.
"""

from day0.spec.check import at_opening

CHECK = at_opening(__name__, __doc__)
