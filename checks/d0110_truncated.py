"""Every shard is as long as its header says.

Why: a download that was cut off loads as far as it goes; the rest of the weights stays whatever memory held.

Remedy: download the shard again; the finding says how many bytes are missing.

Example: model-00030-of-00030.safetensors: truncated: 73400320 bytes are missing, 12 tensors are incomplete.
"""

from day0.spec.check import at_opening

CHECK = at_opening(__name__, __doc__)
