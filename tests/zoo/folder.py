"""The files of a checkpoint folder: configuration, two safetensors shards with their index, generation settings."""
import json

from safetensors.torch import load_file, save_file

from . import experts, fp8, tokenizer

SHARDS = 2


def write_json(path, content):
    path.write_text(json.dumps(content, indent=2) + "\n")


def scheme(family):
    """The module that packs and unpacks the weights of a family."""
    return experts if isinstance(family.packing, experts.Experts) else fp8


def config_json(family, tensors):
    """Content of config.json: the released keys of the family, token ids, dtype, and the quantisation if any."""
    content = dict(architectures=[family.model_class]) | family.keys | tokenizer.CONFIG_IDS
    content |= dict(torch_dtype="bfloat16", use_cache=True)
    if family.packing:
        stated = fp8.signature(family.packing, tensors) if scheme(family) is fp8 else experts.signature(family.packing)
        content |= dict(quantization_config=stated) if stated else {}
    return content


def nbytes(tensor):
    return tensor.numel() * tensor.element_size()


def write_shards(folder, tensors):
    """Shards of about equal bytes in the order of the names, and model.safetensors.index.json."""
    total, used, shards = sum(map(nbytes, tensors.values())), 0, [{} for _ in range(SHARDS)]
    for name in sorted(tensors):
        shards[used * SHARDS // total][name] = tensors[name].contiguous()
        used += nbytes(tensors[name])
    weight_map = {}
    for number, shard in enumerate(shards, 1):
        file = f"model-{number:05d}-of-{SHARDS:05d}.safetensors"
        save_file(shard, folder / file, metadata={"format": "pt"})
        weight_map |= dict.fromkeys(shard, file)
    write_json(folder / "model.safetensors.index.json", dict(metadata=dict(total_size=total), weight_map=weight_map))


def read_shards(folder):
    """Name -> tensor as stored."""
    return {k: v for file in sorted(folder.glob("model-*.safetensors")) for k, v in load_file(file).items()}


def write_checkpoint(folder, family, tensors):
    """Everything but the reference results."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", config_json(family, tensors))
    beside = experts.sidecar(family.packing) if scheme(family) is experts else None
    if beside:
        write_json(folder / "hf_quant_config.json", beside)
    ends = [tokenizer.IDS["eos"], tokenizer.IDS["turn"]]
    write_json(folder / "generation_config.json", dict(
        bos_token_id=tokenizer.IDS["bos"], eos_token_id=ends, pad_token_id=tokenizer.IDS["pad"], do_sample=False))
    tokenizer.write(folder)
    write_shards(folder, tensors)
