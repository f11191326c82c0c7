"""One letter for each axis: suffix of tensor variables, axis name in operators, key in reports."""

AXES = {
    "T": "tokens of one step",
    "S": "tokens held in the state of a sequence",
    "B": "sequences",
    "P": "pages of one sequence",
    "L": "layers",
    "D": "model width",
    "F": "width of a feed-forward network or of one expert",
    "E": "routed experts",
    "K": "experts chosen for a token (top-k)",
    "G": "groups of experts",
    "H": "query heads",
    "N": "key and value heads",
    "Q": "width of a query or key head",
    "V": "width of a value head",
    "R": "rotary width of a head",
    "C": "width of a latent",
    "I": "input width of a linear map",
    "O": "output width of a linear map",
    "J": "taps of a convolution",
    "W": "words of the vocabulary",
}
