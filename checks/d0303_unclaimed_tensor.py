"""Every tensor of the checkpoint is used by the model.

Why: a tensor that nobody reads is arithmetic that nobody does: an extra norm or bias that is left out changes every answer a little.

Remedy: teach the family what the tensor is for, or list it there as ignored with the reason.
"""

import re
from collections.abc import Iterator

from day0.checks.d0304_layer_index import beyond

from day0.checkpoint.alike import alike
from day0.checkpoint.ledger import Ledger
from day0.engine.release import Release
from day0.spec.check import check
from day0.spec.finding import Finding

CACHE_SCALE = re.compile(r"\.(k|v|q|prob)_(proj\.)?(output_)?scale$|\.kv_cache_scale$")
COMPANION = re.compile(r"(?<=\.weight)_scale_inv$|(?<=_proj)_scale_inv$|\.scale$")


def run(release: Release) -> Iterator[Finding]:
    """Unclaimed tensors, alike ones together. Left out: scales of weights that D0204 tells, and layers that D0304 tells."""
    ledger, stored = Ledger(), release.checkpoint.stored
    told = {name for names in beyond(release).values() for name in names}
    for subject, names in alike(name for name in release.unclaimed if name not in told and not _orphan(name, release)):
        size = sum(stored[name].bytes for name in names)
        if CACHE_SCALE.search(subject):
            found = f"{len(names)} scales of an 8-bit cache, not used"
            ledger.warn("D0303", subject, expected="read", found=found, hint="the cache is kept in the compute type")
        elif release.model.tied and "head" in release.family.names.resolve(iter(names))[0]:
            found = f"{size} bytes, not used: the head is the embedding table"
            ledger.warn("D0303", subject, expected="no head of its own", found=found, hint="tie_word_embeddings says so")
        else:
            found = f"{len(names)} tensors of {size} bytes, shape {list(stored[names[0]].shape)}, that nothing reads"
            ledger.fail("D0303", subject, expected="read by the model", found=found, hint="the family does not know what they are for")
    yield from ledger.findings()


def _orphan(name: str, release: Release) -> bool:
    """Whether it is the scale of a weight that no format took."""
    weights = COMPANION.sub("", name), COMPANION.sub(".weight", name)
    return bool(COMPANION.search(name)) and any(w in release.checkpoint.headers and w not in release.checkpoint.stored for w in weights)


CHECK = check(__name__, __doc__, run, scope="release")
