"""There is one chat template, wherever it is written.

Why: a prompt that is laid out differently from training gives answers that are a little worse, never an error.

Remedy: keep the template that the release's own documentation shows.

Example: chat_template.jinja: another one in tokenizer_config.json.
"""

from collections.abc import Iterator

from day0.checkpoint.folder import Checkpoint
from day0.checkpoint.tokenizer import templates
from day0.spec.check import check
from day0.spec.finding import Finding


def run(checkpoint: Checkpoint) -> Iterator[Finding]:
    """Two sources that differ."""
    found = templates(checkpoint.source)
    if len({text.strip() for text in found.values()}) > 1:
        first, *others = found
        hint = f"{first} is used; compare it with the release's documentation"
        elsewhere = f"another one in {', '.join(others)}"
        yield Finding(code="D0308", status="warn", subject=first, expected="one template", found=elsewhere, hint=hint)


CHECK = check(__name__, __doc__, run)
