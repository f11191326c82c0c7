"""Who runs an operator call: implementations in the order of the backend, each asked, and each held against the target's manifest."""

from dataclasses import replace

from day0.engine.calls import key_of, uses
from day0.engine.compiled import compiled
from day0.engine.targets import target_of
from day0.spec.machine import Machine
from day0.spec.ops import Impl, Site
from day0.spec.record import record
from day0.spec.registry import backends, formats, kernels, ops
from day0.spec.reports.map_ops import AskRow, MapStatus
from day0.spec.target import Target, Uses

SHOWN = 4  # names that a reason or a piece of evidence lists


@record
class Choice:
    """Who runs a call."""

    provider: str | None  #: None when nobody can
    kernel: str | None  #: file in kernels/, None for the operator's own meaning
    status: MapStatus  #: what that implementation is here
    decode: bool  #: packed weights are decoded first
    refusals: tuple[tuple[str, str], ...]  #: (provider, reason) of those asked before
    evidence: str = ""  #: why the status is believed
    asks: str | None = None  #: entry of `Chooser.asks`: what it asks of torch, decoding included; None where that was never recorded


class Chooser:
    """Asks the implementations of an operator in the order that the machine's backend gives."""

    def __init__(self, machine: Machine, target: Target | None = None, *, references_only: bool = False) -> None:
        self.target = target or target_of(machine)
        self.machine = as_target(machine, self.target)
        known = self.target.backend in backends()
        order = backends().get(self.target.backend).providers if known else tuple(self.target.providers)
        self.providers: tuple[str, ...] = () if references_only else order
        self.asks: dict[str, AskRow] = {}
        self.offers: dict[str, list[tuple[str, Impl]]] = {}
        for provider in self.providers:
            for file, impl in kernels().items():
                if impl.provider == provider:
                    self.offers.setdefault(impl.op, []).append((file, impl))

    def choose(self, site: Site) -> Choice:
        """The first that accepts the weights as they rest, else the first that accepts them decoded, else the operator's own meaning.

        One that asks the target for what it lacks is refused; when all are, the host runs the call, unless the target has no host.
        """
        if self.absent(site.op):
            return Choice(provider=None, kernel=None, status="missing", decode=False, refusals=(), evidence=self.absent(site.op))
        packed = is_packed(site.format)
        readings = [(site if packed else replace(site, format="plain"), False)]
        if packed:
            readings.append((replace(site, format="plain"), True))
        refusals: dict[tuple[str, str], None] = {}
        for reading, decode in readings:
            for file, impl in self.offers.get(site.op, ()):
                asks = asked(reading, file, site.format if decode else "")
                reason = impl.refuses(reading, self.machine) or self._lacking(asks)
                if reason is None:
                    return self._accepted(site, file, impl, decode, tuple(refusals), asks)
                refusals[impl.provider, reason] = None
        asks = asked(site, site.op, site.format if packed else "")
        reason = self._lacking(asks)
        if reason is not None:
            return self._elsewhere(site, packed, (*refusals, ("reference", reason)))
        return Choice(
            provider="reference", kernel=None, status="reference", decode=packed, refusals=tuple(refusals), evidence=self._evidence(asks),
            asks=self._note(site, site.op, site.format if packed else "", asks),
        )  # fmt: skip

    def absent(self, op: str) -> str:
        """Why there is no such operator; empty when there is."""
        if op not in ops():
            return "has no file in day0/ops/"
        return "" if ops().load(op) else ops().missing[op]

    def _accepted(self, site: Site, file: str, impl: Impl, decode: bool, refusals: tuple[tuple[str, str], ...], asks: Uses | None) -> Choice:
        evidence = self._evidence(asks)
        if impl.status == "compiled":
            native, evidence = compiled(file, self.machine.card.arch, site.dtype, "plain" if decode else site.format)
            status: MapStatus = "compiled-native" if native else "compiled-emulated"
        else:
            status = "composite" if decode else impl.status
        slow = sorted(name for name in asks.operators if name.endswith("mm") and self.target.line(name).has == "composite") if asks else []
        if slow and status == "native":
            status, evidence = "composite", f"{self.target.name}: aten::{slow[0]} is put together from others: {self.target.line(slow[0])}"
        return Choice(
            provider=impl.provider, kernel=file, status=status, decode=decode, refusals=refusals, evidence=evidence,
            asks=self._note(site, file, site.format if decode else "", asks),
        )  # fmt: skip

    def _elsewhere(self, site: Site, packed: bool, refusals: tuple[tuple[str, str], ...]) -> Choice:
        """On the host, by the implementation that a processor would choose; refused where there is no host to help."""
        if self.target.host_fallback.has == "none":
            return Choice(provider=None, kernel=None, status="refused", decode=False, refusals=refusals, evidence=str(self.target.host_fallback))
        reading, decoded = replace(site, format="plain"), site.format if packed else ""
        here = backends().get("cpu").providers if self.providers else ()
        able = ((file, impl) for file, impl in kernels().items() if impl.op == site.op and impl.provider in here)
        file, impl = next(((file, impl) for file, impl in able if impl.refuses(reading, self.machine) is None), (None, None))
        return Choice(
            provider=impl.provider if impl else "reference", kernel=file, status="host fallback", decode=packed, refusals=refusals,
            evidence=f"{self.target.name} lacks what every implementation needs; the host has it",
            asks=self._note(site, file or site.op, decoded, asked(reading, file or site.op, decoded)),
        )  # fmt: skip

    def _note(self, site: Site, name: str, decoded: str, asks: Uses | None) -> str | None:
        """Enter what a call asks of torch; returns the entry's name."""
        if asks is None:
            return None
        key = f"{name}{' of ' + decoded if decoded else ''}, {key_of(site, bool(decoded))}"
        self.asks[key] = AskRow(operators=sorted(asks.operators), types=sorted(asks.types), exact=asks.exact)
        return key

    def _lacking(self, asks: Uses | None) -> str | None:
        lacking = asks.lacking(self.target) if asks else []
        return f"{self.target.name} has no {few(lacking)}" if lacking else None

    def _evidence(self, asks: Uses | None) -> str:
        """What the manifest says about everything that a call asks of torch."""
        if asks is None:
            return "not verified: its torch operators were never recorded"
        unknown = asks.unknown(self.target)
        if unknown:
            return f"not verified: {few(unknown)} on {self.target.name}"
        source = self.target.registered.source if self.target.registered else "its manifest"
        seen = "" if asks.exact else ", as far as its calls were recorded"
        return f"{self.target.name} has all {len(asks.operators)} torch operators that it calls ({source}){seen}"


def as_target(machine: Machine, target: Target) -> Machine:
    """The machine that implementations are asked about: backend, architecture and shared memory are the target's."""
    arch = machine.card.arch if target.backend == machine.backend and machine.card.arch else target.arch
    shared = target.shared_memory_kib * 1024 if target.shared_memory_kib else None
    declared = machine.declared or target.backend != machine.backend
    return replace(machine, backend=target.backend, card=replace(machine.card, arch=arch, shared_memory=shared), declared=declared)


def asked(site: Site, name: str, decoded: str) -> Uses | None:
    """What an implementation asks of torch for a call, with the decoding of weights in the format `decoded` ("" for none)."""
    own = uses(name, key_of(site, bool(decoded)))
    forms = [form for form in decoded.split("+") if form and formats().get(form).packed]
    decoding = [found for form in forms if (found := uses(f"format:{form}", f"{site.dtype} {site.options.get('stored', '')}"))]
    return Uses.union([own, *decoding]) if own else None


def is_packed(form: str) -> bool:
    """Whether weights in this format (several joined by +) are decoded when they are used."""
    return any(formats().get(name).packed for name in form.split("+"))


def few(names: list[str]) -> str:
    """The first of many names."""
    rest = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {rest} more" if rest > 0 else "")
