"""The index can be read and names files of the folder.

Why: without it nobody knows which file counts when two hold the same tensor.

Remedy: download model.safetensors.index.json again.

Example: model.safetensors.index.json: cannot be used: KeyError 'weight_map'.
"""

from day0.spec.check import at_opening

CHECK = at_opening(__name__, __doc__)
