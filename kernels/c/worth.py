"""When compiling is not worth it: a compiler's two seconds against what a model can save. Where sizes are not known, it is."""

from day0.spec.ops import Site

LEAST = 1 << 22  # packed weights of a sublayer, numbers that are kept of the sequences of a step


def too_small(site: Site) -> str | None:
    """For few packed weights: one number for all calls of a sublayer, so that they are all answered alike."""
    packed = site.options.get("packed")
    return f"not worth compiling for the {packed} packed weights of a sublayer" if packed is not None and packed < LEAST else None


def too_short(site: Site) -> str | None:
    """For few keys and values."""
    if "S" not in site.sizes:
        return None
    kept = site.T * site.S * site.N * (site.Q + site.V)
    return f"not worth compiling for {kept} numbers of keys and values" if kept < LEAST else None
