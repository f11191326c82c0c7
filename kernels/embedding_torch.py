"""Table rows by torch's gather."""

from typing import Any

from day0.spec.lazy import functional
from day0.spec.ops import Impl, Site


def launch(table_WD: Any, tokens_T: Any) -> Any:
    return functional.embedding(tokens_T, table_WD)


def refuses(site: Site, machine: Any) -> str | None:
    return None if site.format == "plain" else f"reads plain tables, not {site.format}"


IMPL = Impl(op="embedding", provider="torch", fn=launch, refuses=refuses, status="native")
