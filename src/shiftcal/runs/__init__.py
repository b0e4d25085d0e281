"""Runs on disk: configuration, folder, life cycle, evaluation, comparison, report."""
