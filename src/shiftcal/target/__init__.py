"""What can be known of a target without its labels, from outputs, features and the density ratio of both domains."""
