"""day0: bring a model that was released today up on a machine that nobody has run it on."""

__version__ = "0.1.0"
