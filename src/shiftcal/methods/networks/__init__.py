"""What the methods train: backbones, classifiers, heads."""
