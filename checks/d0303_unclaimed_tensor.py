"""Every tensor of the checkpoint is used by the model.

Why: a tensor that nobody reads is arithmetic that nobody does: an extra norm or bias that is left out changes every answer a little.

Remedy: teach the family what the tensor is for, or list it there as ignored with the reason.

Example: model.layers.*.self_attn.q_norm.weight: 28 tensors of 7168 bytes, shape [128], that nothing reads.
"""

from collections.abc import Iterator

from day0.checkpoint.alike import alike
from day0.checkpoint.banks import alike as alike_weights
from day0.checkpoint.ledger import Ledger
from day0.checkpoint.unread import unread
from day0.checks.d0304_layer_index import beyond
from day0.engine.release import Release
from day0.spec.check import check
from day0.spec.finding import Finding

CACHE = frozenset({"k_scale", "v_scale", "q_scale", "prob_scale", "output_scale", "kv_cache_scale"})


def run(release: Release) -> Iterator[Finding]:
    """Unclaimed tensors, alike ones together. Left out: companions of weights that D0204 tells, and layers that D0304 tells."""
    ledger, stored = Ledger(), release.checkpoint.stored
    told = {name for names in beyond(release).values() for name in names}
    told |= {name for left in unread(release.checkpoint) for name in left.names}
    names = [name for name in release.unclaimed if name not in told]
    cached = any(not CACHE.isdisjoint(weight.parts) for _, weight, _ in alike_weights(stored))
    cache = [part.name for weight in stored.values() for kind, part in weight.parts.items() if kind in CACHE] if cached else []
    cache += [name for name in names if name.rpartition(".")[2] in CACHE]
    for subject, members in alike(cache):
        found = f"{len(members)} scales of an 8-bit cache, not used"
        ledger.warn("D0303", subject, expected="read", found=found, hint="the cache is kept in the compute type")
    for subject, members in alike(name for name in names if name.rpartition(".")[2] not in CACHE):
        _tell(subject, members, release, ledger)
    yield from ledger.findings()


def _tell(subject: str, names: list[str], release: Release, ledger: Ledger) -> None:
    stored = release.checkpoint.stored
    size = sum(stored[name].bytes for name in names)
    if release.model.tied and "head" in release.family.names.resolve(iter(names))[0]:
        found = f"{size} bytes, not used: the head is the embedding table"
        ledger.warn("D0303", subject, expected="no head of its own", found=found, hint="tie_word_embeddings says so")
    else:
        found = f"{len(names)} tensors of {size} bytes, shape {list(stored[names[0]].shape)}, that nothing reads"
        ledger.fail("D0303", subject, expected="read by the model", found=found, hint="the family does not know what they are for")


CHECK = check(__name__, __doc__, run, scope="release")
