"""A byte-level BPE tokenizer of 286 tokens: the 256 bytes, 24 merges, six special tokens, and its chat template."""
import json

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

MERGES = ("Ġ t", "h e", "Ġ a", "i n", "Ġt he", "r e", "Ġ s", "o n", "e r", "Ġ w", "o u", "n d",
          "Ġ o", "i t", "e n", "Ġ c", "Ġa nd", "e s", "Ġ f", "i s", "in g", "Ġ m", "Ġo f", "o r")
SPECIALS = {"bos": "<|begin|>", "eos": "<|end|>", "turn": "<|turn|>", "user": "<|user|>", "assistant": "<|assistant|>", "pad": "<|pad|>"}
FIRST_SPECIAL = 256 + len(MERGES)
IDS = {role: FIRST_SPECIAL + i for i, role in enumerate(SPECIALS)}
CONFIG_IDS = {"bos_token_id": IDS["bos"], "eos_token_id": IDS["eos"]}
CHAT_TEMPLATE = """\
{{- bos_token }}
{%- for message in messages %}
{{- '<|' + message['role'] + '|>' + message['content'] + '<|turn|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|assistant|>' }}
{%- endif %}
"""


def tokenizer():
    """The tokenizers object; it adds no token of its own to a text."""
    pieces = sorted(pre_tokenizers.ByteLevel.alphabet()) + [merge.replace(" ", "") for merge in MERGES]
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    built = Tokenizer(models.BPE(vocab=vocabulary, merges=[tuple(merge.split(" ")) for merge in MERGES]))
    built.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    built.decoder = decoders.ByteLevel()
    built.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIALS.values()])
    return built


def write(folder):
    """tokenizer.json, tokenizer_config.json and chat_template.jinja."""
    tokenizer().save(str(folder / "tokenizer.json"))
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE)
    settings = dict(tokenizer_class="PreTrainedTokenizerFast", model_max_length=512, clean_up_tokenization_spaces=False,
                    **{f"{role}_token": SPECIALS[role] for role in ("bos", "eos", "pad")})
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n")
