"""Every weight of the model is in the checkpoint.

Why: a loader that does not ask starts with what memory held in the weight's place, and answers fluent nonsense.

Remedy: finish the download; where the copy is complete, the family describes another model than this one.

Example: layers.17.ffn.experts.gate: experts [45, 46] absent.
"""

from collections.abc import Iterator

from day0.checkpoint.ledger import Ledger
from day0.checkpoint.unread import unread
from day0.engine.release import Release
from day0.spec.check import check
from day0.spec.finding import Finding

HINT = "is the download complete, and does the configuration belong to these weights?"


def run(release: Release) -> Iterator[Finding]:
    """Weights without tensor, and stacks of experts with gaps. What an absent or damaged shard would hold is told with the shard."""
    yield from blind(release)
    if not release.missing:
        return
    checkpoint, ledger = release.checkpoint, Ledger()
    indexed = checkpoint.index.weight_map.keys() if checkpoint.index else set()
    lost, _ = release.family.names.resolve(name for name in indexed if name not in checkpoint.headers)
    left = {reading.name: tensor.header.name for tensor in unread(checkpoint) for reading in tensor.readings}
    packed, _ = release.family.names.resolve(iter({**left, **{name: name for name in checkpoint.headers if name not in checkpoint.stored}}))
    for name in release.missing:
        located = release.tensors.get(name)
        if name in lost:
            continue
        if located is not None:
            absent = sorted(set(range(located.spec.shape[0])) - {piece.expert for piece, _ in located.pieces if piece.expert is not None})
            extra = len(located.pieces) - (located.spec.shape[0] - len(absent))
            found = f"experts {absent[:8]} absent" if absent else f"{extra} experts more than the configuration says"
        elif name in packed:
            source = packed[name][0].source
            found = f"{left.get(source, source)} is there, but no format reads it"
        else:
            found = "in no shard"
        ledger.fail("D0302", name, expected="in the checkpoint", found=found, hint=HINT)
    yield from ledger.findings()


def blind(release: Release) -> Iterator[Finding]:
    """Weights of a tower for images of which some are there; D0309 tells of one that is absent, the shard what an absent shard would hold."""
    if not release.towers.get("vision") or not release.blind:
        return
    ledger, indexed = Ledger(), release.checkpoint.index.weight_map.keys() if release.checkpoint.index else set()
    prefixes = tuple(prefix for tower in release.model.towers for prefix in tower.prefixes)
    if any(name.startswith(prefixes) and name not in release.checkpoint.headers for name in indexed):
        return
    for name in release.blind:
        ledger.fail("D0302", f"vision.{name}", expected="in the checkpoint, as vision_config says", found="in no shard", hint=HINT)
    yield from ledger.findings()


CHECK = check(__name__, __doc__, run, scope="release")
