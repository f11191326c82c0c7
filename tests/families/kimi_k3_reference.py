"""Kimi K3's language model in the plainest torch, float64, one sequence at a time: written from its published formulas, for comparison.

Names and layouts are those of the release. Nothing is shared with the implementation under test.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
LATENT_EPS = 1e-6  # of the norms inside latent attention; everything else takes rms_norm_eps


class Reference:
    """A checkpoint's tensors, as stored, and the `text_config` of its configuration."""

    def __init__(self, stored: Mapping[str, Tensor], config: Mapping[str, Any]) -> None:
        self.stored, self.config, self.eps = stored, config, config["rms_norm_eps"]
        self.margin = float("inf")  # least distance of a chosen expert's score from a rejected one's, over all calls

    def logits(self, tokens: list[int]) -> Tensor:
        """[tokens, vocabulary] in float64."""
        prefix = self.weight("model.embed_tokens.weight")[tokens]
        blocks: list[Tensor] = []
        for i in range(self.config["num_hidden_layers"]):
            layer = f"model.layers.{i}."
            mixed = self.mix(blocks, prefix, f"{layer}self_attention_res") if blocks else prefix
            attended = self.attend(self.norm(mixed, f"{layer}input_layernorm.weight"), i)
            if i % self.config["attn_res_block_size"] == 0:
                blocks.append(prefix)
                prefix = attended
            else:
                prefix = prefix + attended
            mixed = self.mix(blocks, prefix, f"{layer}mlp_res")
            prefix = prefix + self.feed(self.norm(mixed, f"{layer}post_attention_layernorm.weight"), i)
        last = self.mix(blocks, prefix, "model.output_attn_res")
        return self.norm(last, "model.norm.weight") @ self.weight("lm_head.weight").T

    def weight(self, name: str) -> Tensor:
        """A tensor in float64, unpacked where the release packs it."""
        name = f"language_model.{name}"
        if name in self.stored:
            return self.stored[name].double()
        return unpack(self.stored[f"{name}_packed"], self.stored[f"{name}_scale"])

    def linear(self, x: Tensor, name: str) -> Tensor:
        return x @ self.weight(f"{name}.weight").T

    def norm(self, x: Tensor, name: str, eps: float | None = None) -> Tensor:
        return x / torch.sqrt((x * x).mean(-1, keepdim=True) + (self.eps if eps is None else eps)) * self.weight(name)

    def mix(self, blocks: list[Tensor], prefix: Tensor, place: str) -> Tensor:
        """Softmax over the blocks and the prefix, of each one's normed product with a learned vector."""
        candidates = [*blocks, prefix]
        scores = [(self.norm(v, f"{place}_norm.weight") * self.weight(f"{place}_proj.weight").flatten()).sum(-1) for v in candidates]
        shares = torch.stack(scores).softmax(0)
        return sum(share[:, None] * v for share, v in zip(shares, candidates, strict=True))

    def attend(self, x: Tensor, i: int) -> Tensor:
        delta = i + 1 in self.config["linear_attn_config"]["kda_layers"]
        return (self.delta_attention if delta else self.latent_attention)(x, f"model.layers.{i}.self_attn.")

    def delta_attention(self, x: Tensor, at: str) -> Tensor:
        settings = self.config["linear_attn_config"]
        heads, dim = settings["num_heads"], settings["head_dim"]
        q, k, v = (self.convolved(self.linear(x, f"{at}{n}_proj"), f"{at}{n}_conv1d.weight").view(len(x), heads, dim) for n in "qkv")
        q, k = (y / torch.sqrt((y * y).sum(-1, keepdim=True) + 1e-6) for y in (q, k))
        rate = self.weight(f"{at}A_log").flatten()[:heads].exp()
        pushed = self.linear(self.linear(x, f"{at}f_a_proj"), f"{at}f_b_proj") + self.weight(f"{at}dt_bias")
        keep = torch.exp(settings["gate_lower_bound"] * torch.sigmoid(rate[:, None] * pushed.view(len(x), heads, dim)))
        beta = torch.sigmoid(self.linear(x, f"{at}b_proj"))
        out = torch.zeros(len(x), heads, dim, dtype=torch.float64)
        for h in range(heads):
            memory = torch.zeros(dim, dim, dtype=torch.float64)
            for t in range(len(x)):
                memory = torch.diag(keep[t, h]) @ memory
                memory = memory + beta[t, h] * torch.outer(k[t, h], v[t, h] - k[t, h] @ memory)
                out[t, h] = q[t, h] * dim**-0.5 @ memory
        gate = torch.sigmoid(self.linear(x, f"{at}g_proj")).view(len(x), heads, dim)
        return self.linear((self.norm(out, f"{at}o_norm.weight") * gate).flatten(1), f"{at}o_proj")

    def convolved(self, x: Tensor, name: str) -> Tensor:
        """silu of each channel's sum over the last taps; the last tap meets the current token."""
        taps = self.weight(name)[:, 0]
        out = torch.zeros_like(x)
        for t in range(len(x)):
            for j in range(taps.shape[1]):
                source = t - taps.shape[1] + 1 + j
                if source >= 0:
                    out[t] += taps[:, j] * x[source]
        return out * torch.sigmoid(out)

    def latent_attention(self, x: Tensor, at: str) -> Tensor:
        c = self.config
        heads, nope, extra, width = c["num_attention_heads"], c["qk_nope_head_dim"], c["qk_rope_head_dim"], c["v_head_dim"]
        queries = self.linear(self.norm(self.linear(x, f"{at}q_a_proj"), f"{at}q_a_layernorm.weight", LATENT_EPS), f"{at}q_b_proj")
        queries = queries.view(len(x), heads, nope + extra)
        latent, shared = self.linear(x, f"{at}kv_a_proj_with_mqa").split((c["kv_lora_rank"], extra), -1)
        normed = self.norm(latent, f"{at}kv_a_layernorm.weight", LATENT_EPS)
        expanded = self.linear(normed, f"{at}kv_b_proj").view(len(x), heads, nope + width)
        out = torch.zeros(len(x), heads, width, dtype=torch.float64)
        for h in range(heads):
            keys = torch.cat((expanded[:, h, :nope], shared), -1)
            for t in range(len(x)):
                scores = keys[: t + 1] @ queries[t, h] * (nope + extra) ** -0.5
                out[t, h] = scores.softmax(0) @ expanded[: t + 1, h, nope:]
        return self.linear(out.flatten(1) * torch.sigmoid(self.linear(x, f"{at}g_proj")), f"{at}o_proj")

    def feed(self, x: Tensor, i: int) -> Tensor:
        if i < self.config["first_k_dense_replace"]:
            return self.network(x, f"model.layers.{i}.mlp.", ("gate_proj", "up_proj", "down_proj"))
        return self.experts(x, f"model.layers.{i}.block_sparse_moe.")

    def network(self, x: Tensor, at: str, names: tuple[str, str, str]) -> Tensor:
        gate, up, down = names
        return self.linear(self.situ(self.linear(x, at + gate), self.linear(x, at + up)), at + down)

    def situ(self, gate: Tensor, up: Tensor) -> Tensor:
        a, b = self.config["activation_situ_beta"], self.config["activation_situ_linear_beta"]
        return a * torch.tanh(gate / a) * torch.sigmoid(gate) * b * torch.tanh(up / b)

    def experts(self, x: Tensor, at: str) -> Tensor:
        scores = torch.sigmoid(self.linear(x, f"{at}gate"))
        biased = scores + self.weight(f"{at}gate.e_score_correction_bias")
        latent = self.linear(x, f"{at}routed_expert_down_proj")
        total = torch.zeros_like(latent)
        top = self.config["num_experts_per_token"]
        for t in range(len(x)):
            order = sorted(range(biased.shape[1]), key=lambda e, t=t: (-biased[t, e].item(), e))
            self.margin = min(self.margin, (biased[t, order[top - 1]] - biased[t, order[top]]).item())
            weights = scores[t, order[:top]] / (scores[t, order[:top]].sum() + 1e-20) * self.config["routed_scaling_factor"]
            for weight, expert in zip(weights, order[:top], strict=True):
                total[t] += weight * self.network(latent[t], f"{at}experts.{expert}.", ("w1", "w3", "w2"))
        routed = self.linear(self.norm(total, f"{at}routed_expert_norm.weight"), f"{at}routed_expert_up_proj")
        return routed + self.network(x, f"{at}shared_experts.", ("gate_proj", "up_proj", "down_proj"))


def unpack(packed: Tensor, scale: Tensor) -> Tensor:
    """Two E2M1 codes a byte, the even column in the low half; one power of two for each 32 columns."""
    rows, half = packed.shape
    out = torch.zeros(rows, 2 * half, dtype=torch.float64)
    values = torch.tensor([*E2M1, *(-v for v in E2M1)], dtype=torch.float64)
    out[:, 0::2], out[:, 1::2] = values[(packed & 15).long()], values[(packed >> 4).long()]
    return out * (2.0 ** (scale.double() - 127)).repeat_interleave(32, dim=1)
