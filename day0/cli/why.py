"""Say why a call of the map runs as it does: evidence, price, every other candidate's reason, and the command that drafts what is missing.

SITE is a call (layers.3.ffn.experts, ffn.experts, q_a), or an operator (experts); /decode or /prefill after it picks a phase.
"""

from typing import Annotated

import typer

from day0.cli import options

Site = Annotated[str, typer.Argument(metavar="SITE", help="Call or operator: layers.3.ffn.experts, experts/decode.")]


def command(
    site: Site,
    model: options.ModelOption = None,
    machine: options.Machine = None,
    reports: options.Reports = options.REPORTS,
) -> None:
    """Read the map, answer."""
    from day0.render import console
    from day0.render import why as view
    from day0.spec.reports.map_ops import MapOpsReport
    from day0.stages.chain import Chain
    from day0.stages.machines import find_machine
    from day0.stages.why import why

    chain = Chain.find(reports, model, find_machine(machine).name if machine else None)
    console.draw(view.why(why(chain.read(MapOpsReport), site)))
