"""Every tensor of the index is in a shard.

Why: an index of another revision lists weights that were renamed or removed; a loader that trusts it leaves them uninitialised.

Remedy: download index and shards of one revision.

Example: model.layers.61.eh_proj.weight: in the index, in no shard.
"""

from day0.spec.check import at_opening

CHECK = at_opening(__name__, __doc__)
