"""Absorbed latent attention by SDPA: all heads are rows over one shared key, whose first C elements are also the value."""

from typing import Any

from day0.spec.lazy import functional, torch
from day0.spec.ops import Impl, Site
from day0.spec.state import PAGED


def launch(q_THC: Any, q_THR: Any, pages: Any, segment: Any, scale: float) -> Any:
    C = q_THC.shape[-1]
    q_TH = torch.cat((q_THC, q_THR), dim=-1)
    outputs = []
    for b in range(q_TH.shape[0]):
        key = segment.entries(pages, b, PAGED)[None, None]
        value = key if key.is_cpu else key[..., :C]  # the fused kernel for processors takes values as wide as keys alone
        outputs.append(functional.scaled_dot_product_attention(q_TH[b][None, None], key, value, scale=scale)[0, ..., :C])
    return outputs[0] if len(outputs) == 1 else torch.cat(outputs)


def refuses(site: Site, machine: Any) -> str | None:
    return None if site.phase == "decode" else "reads one query a sequence"


IMPL = Impl(op="latent_attention", provider="torch", fn=launch, refuses=refuses, status="native")
