"""What each stage leaves on disk: one strict pydantic model a stage."""

CHAIN = ("inspect", "plan-memory", "map-ops", "validate-layer", "run", "serve")  # in order; each leaves <name>.yaml
