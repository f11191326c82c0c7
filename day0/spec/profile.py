"""A machine profile: the figures of one kind of card, each with where it comes from."""

from math import floor

from pydantic import Field, model_validator

from day0.spec.errors import Day0Error
from day0.spec.machine import Card, Evidence, Machine
from day0.spec.reports.base import Strict

GIB, GB, TERA = 1 << 30, 10**9, 10**12


class Profile(Strict):
    """One YAML file in `templates/machines/`, or a user's own."""

    name: str = Field(description="the file's name, as --machine takes it")
    title: str = Field(description="maker and product")
    backend: str = Field(description="file name in day0/backends/; a machine may be planned for before it has one")
    arch: str = Field(default="", description='architecture that compilers know it by, such as "sm_90"; empty where it does not matter')
    marketing_gb: float = Field(gt=0, description="memory of one card as it is sold, in units of 1e9 bytes")
    usable_gib: float | None = Field(
        default=None, gt=0, description="memory that an engine sees on one card, in GiB; when unknown, that of marketing_gb"
    )
    bandwidth_gbs: float | None = Field(default=None, gt=0, description="memory bandwidth of one card, 1e9 bytes a second")
    bandwidth_efficiency: float | None = Field(default=None, gt=0, le=1, description="share of the bandwidth that was reached")
    tflops: dict[str, float] = Field(default_factory=dict, description="number type → dense 1e12 operations a second of one card")
    link_gbs: float | None = Field(default=None, gt=0, description="between cards of a node, one direction, 1e9 bytes a second a card")
    scaleout_gbs: float | None = Field(default=None, gt=0, description="between nodes, one direction, 1e9 bytes a second a card")
    pcie_gbs: float | None = Field(default=None, gt=0, description="between host and card, one direction, 1e9 bytes a second")
    host_link_gbs: float | None = Field(default=None, gt=0, description="coherent link of host and card, one direction, 1e9 bytes a second")
    cards_per_node: int = Field(default=8, gt=0, description="cards that share a host")
    domain: int | None = Field(default=None, gt=0, description="cards that share fast links, when these go beyond a node")
    group: int | None = Field(default=None, gt=0, description="cards that tensor parallelism must not leave, when fewer than a node")
    unified: bool = Field(default=False, description="card and host share one memory")
    host_memory_gib: float | None = Field(default=None, gt=0, description="memory of the host, in GiB")
    evidence: dict[str, Evidence] = Field(
        default_factory=dict, description="field, or tflops.<type>, → how sure the figure is; unverified when absent"
    )
    sources: list[str] = Field(default_factory=list, description="where the figures were read")
    note: str = Field(default="", description="traps and conflicts between sources")

    @model_validator(mode="after")
    def _evidence_is_about_figures(self) -> "Profile":
        known = {*type(self).model_fields, *(f"tflops.{name}" for name in self.tflops)}
        unknown = sorted(set(self.evidence) - known)
        if unknown:
            raise ValueError(f"evidence about unknown fields: {', '.join(unknown)}")
        return self

    def sure(self, field: str) -> Evidence:
        """Evidence of a figure: its own, else that of the table it stands in."""
        return self.evidence.get(field) or self.evidence.get(field.split(".")[0], "unverified")

    def machine(self, cards: int) -> Machine:
        """`cards` of these. Figures of speed that are unverified are left out, so that nothing is predicted from them."""
        if cards < 1:
            raise Day0Error(f"{cards} cards of {self.name}", hint="give at least one")
        memory = floor(self.usable_gib * GIB) if self.usable_gib else floor(self.marketing_gb * GB)
        rates = {name: rate * TERA for name, rate in self.tflops.items() if self.sure(f"tflops.{name}") != "unverified"}
        bandwidth, link = self._speed("bandwidth_gbs"), self._speed("link_gbs")
        memory_evidence = self.sure("usable_gib") if self.usable_gib else "unverified"
        evidence: dict[str, Evidence] = {"memory": memory_evidence, "bandwidth": self.sure("bandwidth_gbs"), "flops": self.sure("tflops")}
        card = Card(name=self.title, memory=memory, bandwidth=bandwidth, flops=rates, arch=self.arch, evidence=evidence)
        return Machine(
            name=self.name if cards == 1 else f"{self.name}x{cards}",
            backend=self.backend,
            card=card,
            cards=cards,
            cards_per_node=self.cards_per_node,
            domain=self.domain,
            group=self.group,
            link=link,
            scaleout=self._speed("scaleout_gbs"),
            host_link=self._speed("host_link_gbs") or self._speed("pcie_gbs"),
            host_memory=floor(self.host_memory_gib * GIB) if self.host_memory_gib else None,
        )

    def _speed(self, field: str) -> float | None:
        figure = getattr(self, field)
        return None if figure is None or self.sure(field) == "unverified" else figure * GB
