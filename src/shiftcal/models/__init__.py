"""Networks: backbones that give features, and the heads on them."""
