"""A picture from the disk against the network that takes it: does the loader keep up?

By `benchmarks.backbones.loader`, which needs the pictures of Office-31; seconds are of one picture.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.backbones.loader import NETWORKS, SIZES, decoding_rates, network_rate
from benchmarks.performance.measuring import Measurement


def measure(quick: bool) -> list[Measurement]:
    """The lines of this topic."""
    lines = []
    for (stored, size), (name, network_size) in list(zip(SIZES, NETWORKS, strict=True))[: 1 if quick else None]:
        assert size == network_size
        # The slowest thing that the network does with a picture: training, where it is trained at all.
        network = min(network_rate(name, size), key=lambda row: float(row["per_cpu_second"]))
        with tempfile.TemporaryDirectory() as folder:
            rates = decoding_rates(Path(folder), stored, size)
        lines += [
            Measurement(
                str(row["what"]),
                f"a picture of {stored} pixels, brought to {size}",
                1 / float(row["per_cpu_second"]),
                str(network["what"]),
                1 / float(network["per_cpu_second"]),
            )
            for row in rates
        ]
    return lines
