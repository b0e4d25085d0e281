"""Random numbers that depend on named integers alone, never on the global state of numpy or torch."""

from __future__ import annotations

import numpy as np
import torch

from shiftcal.core.errors import InvalidInputError


def seeded_generator(*parts: int) -> torch.Generator:
    """A CPU generator whose stream is decided by the integers: see `derived_seed`."""
    return torch.Generator().manual_seed(derived_seed(*parts))


def derived_seed(*parts: int) -> int:
    """A seed of 64 bits that is decided by the integers, such as `(seed, step)`, and by their order."""
    return derived_seeds(1, *parts)[0]


def derived_seeds(count: int, *parts: int) -> list[int]:
    """So many unrelated seeds at once, which takes hardly longer than one.

    Neighbouring integers give unrelated streams, and `(1,)`, `(1, 0)` and `(0, 1)` are different seeds.

    Raises:
        InvalidInputError: without integers, or with one outside of [0, 2**64).
    """
    if not parts or not all(0 <= part < 2**64 for part in parts):
        raise InvalidInputError(f"expected integers in [0, 2**64) as parts of a seed, got {parts!r}")
    # SeedSequence pads with zeros and cuts large integers into words of 32 bits: the length and two words for
    # each part keep different parts from being the same entropy.
    words = [len(parts)]
    for part in parts:
        words += [part & 0xFFFFFFFF, part >> 32]
    seeds: list[int] = np.random.SeedSequence(words).generate_state(count, np.uint64).tolist()
    return seeds
