"""One verdict of one check."""

from typing import Literal

from day0.spec.record import record

Status = Literal["pass", "fail", "warn", "unknown"]


@record
class Finding:
    """What a check found about one subject."""

    code: str  #: of the check, "D0204"
    status: Status  #: "fail" makes the stage's answer no
    subject: str  #: what it is about: a file, a tensor, a config key, a layer
    expected: str = ""  #: what should have been there
    found: str = ""  #: what was there
    hint: str = ""  #: what to do
