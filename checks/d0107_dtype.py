"""Every number type is known.

Why: new releases bring new types, and where the type is not known the size cannot be checked either.

Remedy: update day0; range and overlap were checked all the same.
"""

from day0.spec.check import at_opening

CHECK = at_opening(__name__, __doc__)
