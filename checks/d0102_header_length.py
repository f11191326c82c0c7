"""The header of every shard lies inside its file.

Why: a length that is larger than the file makes a careless reader allocate or read far beyond it.

Remedy: download the shard again.
"""

from day0.spec.check import at_opening

CHECK = at_opening(__name__, __doc__)
