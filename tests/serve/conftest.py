import pytest

from day0.engine.text import Tokenizer
from tests.zoo import tokenizer as zoo


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory):
    """That of the zoo, greedy by default."""
    folder = tmp_path_factory.mktemp("release")
    zoo.write(folder)
    (folder / "generation_config.json").write_text('{"do_sample": false, "eos_token_id": %d}' % zoo.IDS["eos"])  # noqa: UP031
    return Tokenizer.open(folder)
