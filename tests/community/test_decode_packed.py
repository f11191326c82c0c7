"""The second opinion on packed weights agrees with our formats on every layout, and is another path."""

from pathlib import Path

import pytest
import torch

from day0.community.decode import independent
from day0.engine.loading import decoded
from tests.engine.test_packed import banks, matrix


@pytest.mark.parametrize("kind", ["mxfp4", "nvfp4", "mxfp8", "fp8", "fp8_block", "int4", "awq", "gptq"])
def test_both_paths_agree(tmp_path: Path, kind: str) -> None:
    checkpoint = (matrix if kind in ("int4", "awq", "gptq") else banks)(tmp_path, kind)
    (stored,) = checkpoint.stored.values()
    found = independent(checkpoint, stored)
    assert found is not None and found[1]
    torch.testing.assert_close(decoded(checkpoint.folder, stored, torch.float32), found[0], rtol=1e-6, atol=0)
