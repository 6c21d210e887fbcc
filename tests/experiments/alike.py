"""Methods that experiments deal with as they deal with others."""

ALIKE = {
    "niso-no-equivariance": "niso",
    "niso-no-multiplicity": "niso",
    "niso-contrastive": "niso-vicreg",
    "contrastive": "vicreg",
    "niso-vicreg": "niso-group-vicreg",
    "niso-group": "niso-group-vicreg",
    "nft-triplet": "nft",
}
"""Each differs from another in a weight, or in what its objective compares: of that, tests/methods/test_methods.py has
all of them."""
