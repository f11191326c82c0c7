"""No layer is stored beyond the stack and its prediction layers.

Why: prediction layers follow the stack under the next numbers; a layer beyond them says that the configuration describes another model.

Remedy: compare num_hidden_layers and the number of prediction layers with the release.

Example: layer 62: 9 tensors, index beyond 61 layers and 1 prediction layers.
"""

import re
from collections.abc import Iterator

from day0.engine.release import Release
from day0.spec.check import check
from day0.spec.finding import Finding

MARKS = ("enorm", "hnorm", "eh_proj", "shared_head")  # tensors that only prediction layers have


def run(release: Release) -> Iterator[Finding]:
    """Layers that nobody counts: unmentioned prediction layers, and others; then prediction layers that are mentioned and absent."""
    count, extra = len(release.model.layers), release.model.prediction
    allowed = count + (extra.count if extra else 0)
    for index, names in sorted(beyond(release).items()):
        expected = f"layers below {allowed}"
        if any(mark in name for name in names for mark in MARKS):
            found = f"{len(names)} tensors of a prediction layer, stored but not used"
            yield Finding(code="D0304", status="warn", subject=f"layer {index}", expected=expected, found=found)
        else:
            found = f"{len(names)} tensors, index beyond {count} layers and {allowed - count} prediction layers"
            hint = "does the configuration belong to these weights?"
            yield Finding(code="D0304", status="fail", subject=f"layer {index}", expected=expected, found=found, hint=hint)
    for prefix in extra.prefixes if extra and not release.checkpoint.config_alone else ():
        if not any(name.startswith(prefix) for name in release.prediction):
            found = "not stored; nothing but speculative decoding needs it"
            yield Finding(code="D0304", status="warn", subject=prefix.rstrip("."), expected="a prediction layer", found=found)


def beyond(release: Release) -> dict[int, list[str]]:
    """Index → unclaimed tensors of layers that the stack does not have."""
    names = release.family.names
    prefixes = "|".join(map(re.escape, sorted(names.prefixes, key=len, reverse=True)))
    layer = re.compile(f"(?:{prefixes})" + re.escape(names.layer).replace(r"\{i\}", "([0-9]{1,18})"))
    found: dict[int, list[str]] = {}
    for name in release.unclaimed:
        match = layer.match(name)
        if match and int(match[1]) * names.per_layer >= len(release.model.layers):
            found.setdefault(int(match[1]), []).append(name)
    return found


CHECK = check(__name__, __doc__, run, scope="release")
