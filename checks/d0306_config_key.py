"""Every key of the configuration is read.

Why: a key that nobody reads may be the one that changes the arithmetic: a scale, a window, another activation.

Remedy: look up what the key does in the model's own code, and teach the family.

Example: attention_value_scale: 0.707, read by nobody.
"""

from collections.abc import Iterator

from day0.checkpoint.keys import guess, value_at
from day0.checkpoint.ledger import Ledger
from day0.engine.release import Release
from day0.spec.check import check
from day0.spec.finding import Finding


def run(release: Release) -> Iterator[Finding]:
    """Keys that nobody read."""
    ledger = Ledger()
    for key in release.model.unread_keys:
        value = value_at(release.checkpoint.config.data, key)
        guessed = guess(key, value)
        if value is not None and value is not False:
            hint = f"by its name: {guessed}" + ("; the answers may be wrong" if guessed.startswith("changes") else "")
            ledger.warn("D0306", key, expected="read by the family", found=f"{str(value)[:60]}, read by nobody", hint=hint)
    yield from ledger.findings()


CHECK = check(__name__, __doc__, run, scope="release")
