"""Short convolutions by torch's grouped convolution; single tokens of several sequences as one product with the taps."""

from typing import Any

from day0.spec.lazy import functional, torch
from day0.spec.ops import Impl, Site


def launch(
    x_TC: Any, weight_CJ: Any, carried_BSC: Any, queries: tuple[int, ...], bias_C: Any = None, dilation: int = 1
) -> tuple[Any, Any]:
    taps_CJ = weight_CJ.view(x_TC.shape[1], -1).float()
    bias = None if bias_C is None else bias_C.float()
    if max(queries) == 1:
        inputs_BJC = torch.cat((carried_BSC.to(x_TC.dtype), x_TC[:, None]), 1)
        y_BC = (inputs_BJC[:, ::dilation].float() * taps_CJ.T).sum(1)
        return functional.silu(y_BC if bias is None else y_BC + bias).to(x_TC.dtype), inputs_BJC[:, 1:]
    outputs, carried, start = [], [], 0
    for b, count in enumerate(queries):
        inputs = torch.cat((carried_BSC[b].to(x_TC.dtype), x_TC[start : start + count]))
        y_CT = functional.conv1d(inputs.T.float()[None], taps_CJ[:, None], bias, dilation=dilation, groups=taps_CJ.shape[0])[0]
        outputs.append(functional.silu(y_CT).T)
        carried.append(inputs[count:])
        start += count
    return torch.cat(outputs).to(x_TC.dtype), torch.stack(carried)


def refuses(site: Site, machine: Any) -> str | None:
    return "computes in float32" if site.dtype == "float64" else None


IMPL = Impl(op="short_convolution", provider="torch", fn=launch, refuses=refuses, status="composite")
