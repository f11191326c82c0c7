"""Make the page of a model from its reports.

`day0 adapt` does so at its end; this makes the page again, from the reports that are there and still hold.
"""

from day0.cli import options


def command(model: options.OptionalModel = None, machine: options.Machine = None, reports: options.Reports = options.REPORTS) -> int:
    """Write the page; its path is the answer."""
    from day0.render import console
    from day0.render.page import NAME, page
    from day0.stages.chain import Chain
    from day0.stages.conclusion import conclude, gather
    from day0.stages.machines import find_machine

    chain = Chain.find(reports, model, find_machine(machine).name if machine else None)
    found = gather(chain)
    path = chain.lay(NAME, page(found))
    console.note(f"{found.model} on {found.target}: {conclude(found).answer}")
    print(path)
    return 0
