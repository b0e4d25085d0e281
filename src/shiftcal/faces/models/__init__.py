"""Models of any make: what they say of data of any kind, and what they see in them."""
