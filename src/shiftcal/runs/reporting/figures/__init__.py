"""Figures of a report: in each module one function computes what is shown, another draws it."""
