"""Tokenizer and chat template against transformers', and streamed text against text decoded at once."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Inner
from tokenizers import decoders, models
from transformers import AutoTokenizer

from day0.engine.text import TextStream, Tokenizer
from day0.spec.errors import Day0Error
from tests.zoo import tokenizer as zoo

SHARED = Path(__file__).parents[2].parent / "shared" / "models"
CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Was ist <b>2 + 2</b>? 🔥 \n"}]
TEXTS = ["", " ", "Hello, world", "naïve café 🔥🔥 你好", "<|user|>x<|end|>", "a\n\n\tb  c", "1234567", "\u0000\ufffd\u200d"]


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    zoo.write(folder)
    return folder


@pytest.fixture(scope="module")
def fallback(tmp_path_factory):
    """A vocabulary with pieces and single bytes, as sentencepiece has it."""
    folder = tmp_path_factory.mktemp("fallback")
    words = ["▁", "a", "b", "c", "▁a", "▁b", "ab", "é"]
    vocabulary = {piece: i for i, piece in enumerate(["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), *words])}
    inner = Inner(models.BPE(vocab=vocabulary, merges=[("▁", "a"), ("▁", "b"), ("a", "b")], unk_token="<unk>", byte_fallback=True))
    inner.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    inner.save(str(folder / "tokenizer.json"))
    return Tokenizer.open(folder)


def released():
    names = ["tiny-dsv3", "tiny-glm5next"]
    absent = {name: pytest.mark.skipif(not (SHARED / name).is_dir(), reason="the model is not on this machine") for name in names}
    return [pytest.param(SHARED / name, id=name, marks=absent[name]) for name in names]


def with_config(plain, tmp_path, **config):
    (tmp_path / "tokenizer.json").write_bytes((plain / "tokenizer.json").read_bytes())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", **config}))
    return tmp_path


def check_against_transformers(folder):
    theirs, ours = AutoTokenizer.from_pretrained(folder), Tokenizer.open(folder)
    for text in TEXTS:
        for special in (False, True):
            assert ours.encode(text, special) == theirs.encode(text, add_special_tokens=special)
        ids = ours.encode(text)
        for special in (False, True):
            assert ours.decode(ids, special) == theirs.decode(ids, skip_special_tokens=not special)
    for prompt in (False, True):
        expected = theirs.apply_chat_template(CHAT, tokenize=False, add_generation_prompt=prompt)
        assert ours.chat(CHAT, add_generation_prompt=prompt) == expected


@pytest.mark.parametrize("folder", released())
def test_released_tokenizers_equal_transformers(folder):
    check_against_transformers(folder)


def test_zoo_tokenizer_equals_transformers(plain):
    check_against_transformers(plain)


@pytest.mark.parametrize("ends", [{"add_bos_token": True}, {"add_bos_token": True, "add_eos_token": True}, {"add_eos_token": False}])
def test_added_ends_equal_transformers(plain, tmp_path, ends):
    template = "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}"
    check_against_transformers(with_config(plain, tmp_path, bos_token="<|begin|>", eos_token="<|end|>", chat_template=template, **ends))


TEMPLATES = [
    "{% for m in messages %}\n  {% if m.role == 'tool' %}\n    {% continue %}\n  {% endif %}\n{{ m | tojson }}\n{% endfor %}",
    "{% set n = namespace(x=0) %}{% for m in messages %}{% set n.x = n.x + m.content | length %}{% endfor %}{{ n.x }}",
    "{{ tools | tojson(indent=2) }}{{ messages[0].content.split(' ') }}{% generation %}{{ messages[1].content }}{% endgeneration %}",
    "{{ dict(a=1).items() | list }}{{ thinking is defined }}{{ '<' ~ messages[-1]['content'] | trim ~ '>' }}{{ documents is none }}",
    "{%- macro f(x) -%}[{{ x }}]{%- endmacro -%}{{ f(messages[0].name is defined) }}{{ strftime_now('%Y') }}",
]


@pytest.mark.parametrize("template", TEMPLATES)
def test_templates_render_as_in_transformers(plain, tmp_path, template):
    folder = with_config(plain, tmp_path, chat_template=template)
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"default": None}}}]
    chat = [{**CHAT[0], "name": None}, CHAT[1]]
    theirs = AutoTokenizer.from_pretrained(folder)
    expected = theirs.apply_chat_template(chat, tools=tools, tokenize=False, add_generation_prompt=True, thinking=1)
    assert Tokenizer.open(folder).chat(chat, tools, thinking=1) == expected


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
        ("{{ messages[7].content.x }}", "no element 7"),
        ("{{ messages + 1 }}", "cannot render"),
        ("{% for %}", "line 1"),
        ("{{ messages.__class__.__mro__ }}", "unsafe"),
        ("{{ messages.append(1) }}", "unsafe"),
        ("{% set n = namespace() %}{% set n.__class__ = 1 %}", "namespace"),
        ("{{ range(10000000) | list }}", "Range too big"),
        (None, "no chat template"),
    ],
)
def test_templates_that_fail_say_so(plain, tmp_path, template, message):
    folder = with_config(plain, tmp_path, **({"chat_template": template} if template else {}))
    with pytest.raises(Day0Error, match=message):
        Tokenizer.open(folder).chat(CHAT)


def test_a_template_named_for_tools_is_used_for_tools(plain, tmp_path):
    named = [{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "tools"}]
    tokenizer = Tokenizer.open(with_config(plain, tmp_path, chat_template=named))
    assert (tokenizer.chat(CHAT), tokenizer.chat(CHAT, [{"type": "function"}])) == ("plain", "tools")


def test_ends_are_joined_from_all_files_and_keep_their_source(plain, tmp_path):
    folder = with_config(plain, tmp_path, eos_token={"content": "<|end|>"})
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [1, 106, 50], "temperature": 0.6, "top_k": 20}))
    (folder / "config.json").write_text(json.dumps({"eos_token_id": 1, "text_config": {"eos_token_id": 7}}))
    generation = Tokenizer.open(folder).generation
    assert set(generation.eos) == {1, 106, 50, 7, zoo.IDS["eos"]}
    assert generation.eos[1] == "generation_config.json eos_token_id"
    assert generation.eos[7] == "config.json text_config.eos_token_id"
    assert (generation.sampling.temperature, generation.sampling.top_k, generation.sampling.top_p) == (0.6, 20, 1.0)


@pytest.mark.parametrize(("said", "temperature"), [({}, 1.0), ({"do_sample": False, "temperature": 0.6}, 0.0), ({"do_sample": True}, 1.0)])
def test_sampling_defaults_are_the_releases(plain, tmp_path, said, temperature):
    folder = with_config(plain, tmp_path)
    (folder / "generation_config.json").write_text(json.dumps(said))
    assert Tokenizer.open(folder).generation.sampling.temperature == temperature


def test_what_is_missing_or_broken_is_named(plain, tmp_path):
    with pytest.raises(Day0Error, match=r"no tokenizer\.json"):
        Tokenizer.open(tmp_path)
    (tmp_path / "tiktoken.model").touch()
    with pytest.raises(Day0Error, match=r"the release has tiktoken\.model"):
        Tokenizer.open(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(Day0Error, match="not a tokenizer"):
        Tokenizer.open(tmp_path)
    folder = with_config(plain, tmp_path)
    (folder / "generation_config.json").write_text("{")
    with pytest.raises(Day0Error, match="not valid JSON"):
        Tokenizer.open(folder)
    with pytest.raises(Day0Error, match="surrogate"):
        Tokenizer.open(plain).encode("\ud800")


def test_pieces_are_the_bytes_of_a_text(plain, fallback):
    for tokenizer, text in ((Tokenizer.open(plain), "the café 🔥"), (fallback, " a é🔥b")):
        assert b"".join(map(tokenizer.piece, tokenizer.encode(text))).decode() == text
    assert Tokenizer.open(plain).piece(10**6) == b""


def streamed(tokenizer, ids, stop=(), sizes=(1,), prompt=()):
    stream, pieces, at = TextStream(tokenizer, stop, prompt), [], 0
    while at < len(ids) and not stream.stopped:
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(stream.push(ids[at : at + size]))
        at += size
    pieces.append(stream.finish())
    return pieces, stream.stopped


def cut(text, stop):
    """The definition: read character by character until a stop string is complete; the longest of those goes."""
    for end in range(len(text) + 1):
        complete = [s for s in stop if text[:end].endswith(s)]
        if complete:
            return text[: end - max(map(len, complete))], True
    return text, False


ALPHABET = st.text(alphabet="ab,c </think>é你🔥\ufffd\n", max_size=40)
SIZES = st.lists(st.integers(1, 4), min_size=1, max_size=4)
STOPS = st.lists(st.text(alphabet="ab,c é🔥", min_size=1, max_size=4), max_size=3)


@settings(max_examples=300, deadline=None)
@given(ids=st.lists(st.integers(0, 290), max_size=90), sizes=SIZES, stop=STOPS)
def test_any_tokens_stream_to_the_text_decoded_at_once(plain_tokenizer, ids, sizes, stop):
    pieces, stopped = streamed(plain_tokenizer, ids, stop, sizes)
    assert ("".join(pieces), stopped) == cut(plain_tokenizer.decode(ids), stop)


@settings(max_examples=300, deadline=None)
@given(text=st.one_of(ALPHABET, st.text(max_size=60)), sizes=SIZES, stop=STOPS)
def test_any_text_streams_whole_in_both_kinds_of_vocabulary(plain_tokenizer, fallback, text, sizes, stop):
    for tokenizer in (plain_tokenizer, fallback):
        pieces, stopped = streamed(tokenizer, tokenizer.encode(text), stop, sizes)
        assert ("".join(pieces), stopped) == cut(text.replace("▁", " ") if tokenizer is fallback else text, stop)


@pytest.fixture(scope="module")
def plain_tokenizer(plain):
    return Tokenizer.open(plain)


def test_no_half_character_is_sent(plain_tokenizer):
    fire = plain_tokenizer.encode("🔥")
    assert len(fire) == 4
    assert streamed(plain_tokenizer, [*fire, *plain_tokenizer.encode(" ok")])[0][:4] == ["", "", "", "🔥"]
    assert "".join(streamed(plain_tokenizer, fire[:2])[0]) == "\ufffd"


def test_text_that_cannot_be_a_stop_string_is_not_held_back(plain_tokenizer):
    pieces, stopped = streamed(plain_tokenizer, plain_tokenizer.encode("x</think>a,b,c"), ["b,c"])
    assert "".join(pieces[:-1]) == "x</think>a,"
    assert "".join(pieces[: len(plain_tokenizer.encode("x</think>"))]) == "x</think>"
    assert stopped


def test_a_prompt_that_ends_inside_a_character_is_not_repeated(plain_tokenizer):
    prompt, rest = plain_tokenizer.encode("Hello world 🔥")[:-2], plain_tokenizer.encode("🔥")[-2:]
    assert "".join(streamed(plain_tokenizer, [*rest, *plain_tokenizer.encode("!")], prompt=prompt)[0]) == "🔥!"
    assert "".join(streamed(plain_tokenizer, plain_tokenizer.encode("a"), prompt=prompt)[0]) == "\ufffda"


def test_a_prompt_of_single_bytes_is_not_repeated(fallback):
    prompt, answer = fallback.encode("你好你好"), fallback.encode("好 a")
    assert "".join(streamed(fallback, answer, prompt=prompt)[0]) == "好 a"
    assert "".join(streamed(fallback, fallback.encode(" a"), prompt=prompt)[0]) == " a"


def test_long_answers_keep_their_window_short(plain_tokenizer, fallback):
    for tokenizer, text in ((plain_tokenizer, "你好🔥 the " * 200), (fallback, "你好🔥" * 200 + " a b" * 100)):
        assert "".join(streamed(tokenizer, tokenizer.encode(text))[0]) == text
    broken = [plain_tokenizer.encode("🔥")[0]] * 3000
    assert "".join(streamed(plain_tokenizer, broken)[0]) == "\ufffd" * 3000
