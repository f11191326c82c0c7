"""What the configuration says about the language model inside and outside of its section is the same.

Why: tools that read the outer number take the size of a vision tower for that of the language model.

Remedy: none is needed; day0 goes by the section. Have the outer number taken out of the release.
"""

from collections.abc import Iterator

from day0.checkpoint.folder import Checkpoint
from day0.checkpoint.quantization import INNER
from day0.spec.check import check
from day0.spec.finding import Finding

TOKENS = ("_token_id", "_token_index")


def run(checkpoint: Checkpoint) -> Iterator[Finding]:
    """Whole numbers that differ; ids of tokens differ by right."""
    outer = checkpoint.config.data
    for section in INNER:
        inner = outer.get(section)
        for key, value in inner.items() if isinstance(inner, dict) else ():
            other = outer.get(key)
            if type(value) is int and type(other) is int and value != other and not key.endswith(TOKENS):
                expected, found = f"{section}.{key}, which is {value}", f"{other}; the section counts"
                yield Finding(code="D0311", status="warn", subject=key, expected=expected, found=found, hint="other tools may go by it")


CHECK = check(__name__, __doc__, run)
