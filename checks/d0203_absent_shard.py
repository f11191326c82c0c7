"""Every shard that the release consists of is in the folder.

Why: a loader that takes the files it finds starts without the rest, and answers nonsense.

Remedy: finish the download; the finding says what the shard would hold.

Example: model-00012-of-00030.safetensors: absent; it would hold 412 tensors of 5361025024 bytes.
"""

from day0.spec.check import at_opening

CHECK = at_opening(__name__, __doc__)
