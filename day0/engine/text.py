"""Everything between text and tokens, under one name."""

from day0.engine.stream import TextStream
from day0.engine.tokenizer import Tokenizer

__all__ = ["TextStream", "Tokenizer"]
