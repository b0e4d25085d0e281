"""Public data sets by name: `registry` lists them, the other modules know how each kind is stored."""
