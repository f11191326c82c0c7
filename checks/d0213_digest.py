"""Every weight file has the digest that the manifest of the release states.

Why: a flipped bit in the data of a shard leaves its header whole, and changes some answers a little.

Remedy: download the file again; a second copy with the same wrong digest says that the manifest is of another revision.
"""

from collections.abc import Iterator

from day0.checkpoint.ledger import Ledger
from day0.checkpoint.manifest import Digests
from day0.spec.check import check
from day0.spec.finding import Finding


def run(digests: Digests) -> Iterator[Finding]:
    """Files whose digest is another one, and files that the manifest does not name."""
    ledger = Ledger()
    for name, digest in digests.found.items() if digests.manifest else ():
        expected = digests.expected.get(name)
        if expected is None:
            ledger.warn("D0213", name, expected=f"a line in {digests.manifest}", found="none")
        elif expected != digest:
            ledger.fail("D0213", name, expected=f"sha256 {expected} by {digests.manifest}", found=digest, hint="download the file again")
    yield from ledger.findings()


CHECK = check(__name__, __doc__, run, scope="digests")
