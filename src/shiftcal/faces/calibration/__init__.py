"""Target scaling around a model that is already trained: in memory, from files, saved, reported."""
