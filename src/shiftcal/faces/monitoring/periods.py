"""Periods that a table can be split by, and what pandas calls them."""

PERIODS = {"hour": "h", "day": "D", "week": "W", "month": "M", "quarter": "Q", "year": "Y"}
