"""How much is taken from outside before it is refused: each limit is said in its error, with how to raise it."""

from __future__ import annotations

import os
from dataclasses import dataclass

from shiftcal.core.errors import InvalidInputError, shown


@dataclass(frozen=True)
class Limit:
    """A number that what comes from outside may not exceed, unless an environment variable says otherwise."""

    variable: str
    default: int
    unit: str

    @property
    def value(self) -> int:
        """The limit that holds.

        Raises:
            InvalidInputError: the environment variable holds something else than a whole number.
        """
        text = os.environ.get(self.variable, str(self.default))
        if not (text.isascii() and text.isdigit() and len(text) < 20):
            raise InvalidInputError(
                f"{self.variable} must be a whole number of {self.unit}. Got {shown(text)} instead."
            )
        return int(text)

    def check(self, amount: int, what: str, *, at_least: int = 0) -> None:
        """Raise `InvalidInputError` if `what` is more than the limit, or than `at_least` where that is more."""
        most = max(self.value, at_least)
        if amount > most:
            raise InvalidInputError(
                f"{what} has {amount:,} {self.unit}; the limit is {most:,}, so that a damaged or hostile file can't "
                f"exhaust the memory. If it is as it should be: {self.variable}={amount}"
            )


PICTURE_PIXELS = Limit("SHIFTCAL_MAX_PIXELS", 48_000_000, "pixels")
"""Of one image file as it is stored."""
ARRAY_BYTES = Limit("SHIFTCAL_MAX_ARRAY_BYTES", 2**25, "bytes")
"""Of one compressed array; one that takes a hundredth of it in the file may be larger."""
IMAGE_BYTES = Limit("SHIFTCAL_MAX_IMAGE_BYTES", 2**34, "bytes")
"""Of images in memory that are brought to another size."""
BATCH_BYTES = Limit("SHIFTCAL_MAX_BATCH_BYTES", 2**30, "bytes")
"""Of the inputs of one batch."""
