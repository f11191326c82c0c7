"""Findings as they come up, so many of one kind and no more."""

from collections import Counter

from day0.spec.finding import Finding, Status

EACH = 20  # findings of one code that are told one by one
LENGTH = 200  # characters of a subject


class Ledger:
    """Collects findings; of each code the first few stand alone, the rest is counted."""

    def __init__(self) -> None:
        self._kept: list[Finding] = []
        self._counts: Counter[str] = Counter()

    def add(self, status: Status, code: str, subject: str, *, found: str, expected: str = "", hint: str = "") -> None:
        """Keep or count one finding; characters that a terminal would obey are written as escapes."""
        self._counts[code] += 1
        if self._counts[code] <= EACH:
            subject = subject[:LENGTH] if subject.isprintable() else ascii(subject[:LENGTH])[1:-1]
            found = found if found.isprintable() else ascii(found)[1:-1]
            self._kept.append(Finding(code=code, status=status, subject=subject, expected=expected, found=found, hint=hint))

    def fail(self, code: str, subject: str, *, found: str, expected: str = "", hint: str = "") -> None:
        """`add` with status "fail"."""
        self.add("fail", code, subject, found=found, expected=expected, hint=hint)

    def warn(self, code: str, subject: str, *, found: str, expected: str = "", hint: str = "") -> None:
        """`add` with status "warn"."""
        self.add("warn", code, subject, found=found, expected=expected, hint=hint)

    def findings(self) -> list[Finding]:
        """All that were kept, then one line for each code that had more."""
        last = {finding.code: finding for finding in self._kept}
        rest = [(last[code], count - EACH) for code, count in self._counts.items() if count > EACH]
        return self._kept + [
            Finding(code=f.code, status=f.status, subject=f"{more} more", found="of the same kind", hint=f.hint) for f, more in rest
        ]
