"""The head of every shard is there.

Why: the first bytes of a file that a mirror or an upload wrote sparsely are zeros; parsers then complain about JSON.

Remedy: download the shard again, from another mirror if it happens twice.

Example: model-00007-of-00030.safetensors: header length is 0: the head of the file is zero-filled, this copy is damaged.
"""

from day0.spec.check import at_opening

CHECK = at_opening(__name__, __doc__)
