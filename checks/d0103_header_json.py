"""The header of every shard is a JSON object of tensors.

Why: without it nothing is known about the bytes that follow.

Remedy: download the shard again.

Example: model-00007-of-00030.safetensors: not a header: Expecting value: line 1 column 1; the file is a web page that says "not found".
"""

from day0.spec.check import at_opening

CHECK = at_opening(__name__, __doc__)
