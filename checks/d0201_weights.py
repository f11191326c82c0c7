"""The folder holds weights in safetensors.

Why: a release may come with another format alone, and a tool that finds no file may go on with none.

Remedy: download the weights, or convert them to safetensors.

Example: tiny-model: no safetensors file; pytorch_model.bin is there.
"""

from day0.spec.check import at_opening

CHECK = at_opening(__name__, __doc__)
