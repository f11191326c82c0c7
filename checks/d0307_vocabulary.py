"""Every token of the tokenizer has a row in the embedding table.

Why: a token id beyond the table reads foreign memory or fails, but only for the texts that contain it. More rows than tokens are legal.

Remedy: fetch tokenizer and weights of one revision; never cut the table down.

Example: tokenizer.json: highest token id 151668, 151643 rows of the table.
"""

from collections.abc import Iterator

from day0.checkpoint.tokenizer import read_tokenizer
from day0.engine.release import Release
from day0.spec.check import check
from day0.spec.finding import Finding


def run(release: Release) -> Iterator[Finding]:
    """The highest token id against the rows of the table and the configuration."""
    tokenizer = read_tokenizer(release.checkpoint.source)
    rows = release.tensors["embed"].shape[0] if "embed" in release.tensors else release.model.vocab
    if tokenizer is None or tokenizer.highest is None or tokenizer.highest < rows:
        return
    found = f"highest token id {tokenizer.highest}, {rows} rows of the table, vocab_size {release.model.vocab}"
    hint = "fetch tokenizer and weights of one revision"
    yield Finding(code="D0307", status="fail", subject=tokenizer.file, expected=f"token ids below {rows}", found=found, hint=hint)


CHECK = check(__name__, __doc__, run, scope="release")
