"""The optional extra `[reference]`: transformers, quiet, or a located error."""

import importlib
from typing import Any

from day0.spec.errors import Day0Error


def transformers(module: str = "") -> Any:
    """The library (or one of its modules), without its progress bars and advice on stderr."""
    hint = 'pip install "day0[reference]"'
    try:
        library = importlib.import_module("transformers")
    except ImportError as error:
        raise Day0Error(f"the community executor needs transformers, which cannot be imported: {error}", hint=hint) from None
    if int(library.__version__.split(".")[0]) < 5:
        raise Day0Error(f"transformers {library.__version__} is too old: version 5 is needed", hint=hint)
    library.logging.set_verbosity_error()
    library.logging.disable_progress_bar()
    return importlib.import_module(f"transformers.{module}") if module else library
