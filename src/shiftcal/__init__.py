"""Classifiers whose probabilities can be trusted on data unlike their training data."""
