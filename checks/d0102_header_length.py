"""The header of every shard lies inside its file.

Why: a length that is larger than the file makes a careless reader allocate or read far beyond it.

Remedy: download the shard again.

Example: model-00007-of-00030.safetensors: header length 4611686018427387904 in a file of 5363012544 bytes.
"""

from day0.spec.check import at_opening

CHECK = at_opening(__name__, __doc__)
