"""A deployed model over time: batches, alarms, what to label next."""
