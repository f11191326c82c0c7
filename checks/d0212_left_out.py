"""The modules that the configuration leaves out of the quantisation are those whose weights are plain.

Why: a tool that goes by the list looks for scales that are not there, or reads packed numbers as plain ones.

Remedy: none is needed; day0 goes by the tensors. Have the list of the release mended.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from day0.checkpoint.alike import NUMBER
from day0.checkpoint.banks import alike
from day0.checkpoint.folder import Checkpoint
from day0.checkpoint.ledger import Ledger
from day0.checkpoint.scheme import LEFT_OUT, matcher
from day0.spec.check import check
from day0.spec.finding import Finding
from day0.spec.registry import formats

HINT = "day0 goes by the tensors"
LAYER = re.compile(r"(?:^|.*?\.)(?:layers|blocks|h)\.\d+\.")


def run(checkpoint: Checkpoint) -> Iterator[Finding]:
    """Packed weights of modules that are listed, and plain ones of modules that are not, where the same module of other layers is packed."""
    stated, ledger = checkpoint.quantization, Ledger()
    listed = [matcher(entry) for entry in entries(stated)]
    if not stated or not any(key in stated for key in LEFT_OUT):
        return

    def covered(name: str) -> bool:
        return any(match(name.removesuffix(".weight")) for match in listed)

    packed: dict[str, list[str]] = {}
    plain: dict[str, list[str]] = {}
    for name, stored, _ in alike(checkpoint.stored):
        if len(stored.shape) > 1 and name.endswith((".weight", "_proj")):
            group = packed if formats().get(stored.format).packed else plain
            group.setdefault(NUMBER.sub("*", LAYER.sub("", name)), []).append(name)
    for names in packed.values():
        for name in (name for name in names if covered(name)):
            ledger.warn("D0212", name, expected="plain, as the configuration lists it", found="packed", hint=HINT)
    for kind in packed.keys() & plain.keys():
        for name in (name for name in plain[kind] if not covered(name)):
            found = f"plain, and not listed; {packed[kind][0]} is packed"
            ledger.warn("D0212", name, expected="packed, or listed as left out", found=found, hint=HINT)
    yield from ledger.findings()


def entries(stated: Mapping[str, Any]) -> Iterator[str]:
    """Of all lists of modules that are left out."""
    for key in LEFT_OUT:
        found = stated.get(key)
        yield from (entry for entry in found if isinstance(entry, str)) if isinstance(found, list) else ()


CHECK = check(__name__, __doc__, run)
