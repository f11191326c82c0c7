"""The head of every shard is there.

Why: the first bytes of a file that a mirror or an upload wrote sparsely are zeros; parsers then complain about JSON.

Remedy: download the shard again, from another mirror if it happens twice.
"""

from day0.spec.check import at_opening

CHECK = at_opening(__name__, __doc__)
