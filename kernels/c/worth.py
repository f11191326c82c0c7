"""When compiling is not worth it."""

from day0.spec.ops import Site

LEAST = 1 << 22  # packed weights of a sublayer: the 2 s of a compiler are then made up for by few tokens


def too_small(site: Site) -> str | None:
    """For a sublayer of few weights: one number for all of its calls, so that they are all answered alike. None where it is not known."""
    packed = site.options.get("packed")
    return f"not worth compiling for the {packed} packed weights of a sublayer" if packed is not None and packed < LEAST else None
