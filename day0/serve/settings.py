"""What a service is told when it starts."""

import time
from dataclasses import field

from day0.spec.record import record


@record
class Settings:
    """One model behind one address."""

    model: str  #: name that clients ask for
    context: int  #: tokens of a sequence at the most, prompt and answer together
    vocab: int  #: token ids are below this
    fingerprint: str  #: `system_fingerprint` of every answer: version and plan
    api_keys: tuple[str, ...] = ()  #: any of them opens the service; none leaves it open
    max_body: int = 32 << 20  #: bytes of a request's body
    keep_alive: float = 15.0  #: seconds of silence after which a stream gets a comment
    created: int = field(default_factory=lambda: int(time.time()))  #: Unix time of the start
