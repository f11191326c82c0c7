"""No bytes follow the last tensor.

Why: strict readers refuse the file with a message that speaks of an incomplete one, though nothing is missing.

Remedy: cut the file to the size that the finding expects.

Example: model.safetensors: 4096 bytes after the last tensor.
"""

from day0.spec.check import at_opening

CHECK = at_opening(__name__, __doc__)
