"""A picture from the disk against the network that takes it: does the loader keep up?

By `benchmarks.backbones.loader`, which needs the pictures of Office-31; seconds are of one picture.
"""

from __future__ import annotations

from benchmarks.backbones.loader import NETWORKS, SIZES, decoding_rates, network_rates
from benchmarks.performance.measuring import Measurement


def measure(quick: bool) -> list[Measurement]:
    """The lines of this topic."""
    lines = []
    for (stored, size), (name, network_size) in list(zip(SIZES, NETWORKS, strict=True))[: 1 if quick else None]:
        assert size == network_size
        # The slowest thing that the network does with a picture: training, where it is trained at all.
        network = min(network_rates(name, size), key=lambda rate: rate.per_cpu_second)
        lines += [
            Measurement(
                rate.what,
                f"a picture of {stored} pixels, brought to {size}",
                1 / rate.per_cpu_second,
                network.what,
                1 / network.per_cpu_second,
            )
            for rate in decoding_rates(stored, size)
        ]
    return lines
