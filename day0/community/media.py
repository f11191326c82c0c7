"""Pictures as models of transformers are given them."""

import inspect
from collections.abc import Sequence
from math import isqrt
from typing import Any

import torch
from torch import Tensor, nn

from day0.spec.picture import Placed


def media(model: Any, ids: Tensor, images: Sequence[Placed]) -> dict[str, Tensor] | None:
    """As processors leave them: pixels of all patches, (time, rows, columns) of each view, and 1 for each image token where that is wanted.

    {} without images; None where the class wants them otherwise.
    """
    views = [view for image in images for view in image.picture.views]
    accepted = inspect.signature(model.forward).parameters
    if not views:
        return {}
    if "image_grid_thw" not in accepted:
        return None
    parameter = next(model.parameters())
    pixels = torch.cat([torch.from_numpy(view.patches) for view in views]).to(parameter.device, model.dtype)
    first = next((module for module in model.modules() if isinstance(module, nn.Conv2d | nn.Conv3d) and module.in_channels == 3), None)
    if isinstance(first, nn.Conv2d):  # patches are small images
        side = isqrt(pixels.shape[1] // 3)
        pixels = pixels.unflatten(1, (3, side, side))
    found = {"pixel_values": pixels, "image_grid_thw": torch.tensor([[1, *view.grid] for view in views], device=parameter.device)}
    return found | ({"mm_token_type_ids": (ids == images[0].picture.token).int()} if "mm_token_type_ids" in accepted else {})
