"""Exactness, memory and speed of the streaming calibration error on 4e7 samples.

torchmetrics, where it is installed, is asked the same; it is not a dependency.
"""

from __future__ import annotations

import time
import tracemalloc

import numpy as np

from shiftcal.core.vision_guard import import_torchvision
from shiftcal.metrics import StreamingExpectedCalibrationError

NUM_SAMPLES = 40_000_000
CHUNK = 1_000_000
CONFIDENCE = 0.95


def main() -> None:
    """Print the error, the time and the memory that the metric keeps."""
    probabilities = np.tile([CONFIDENCE, 1 - CONFIDENCE], (CHUNK, 1))
    labels = np.arange(CHUNK, dtype=np.int64) % 2
    metric = StreamingExpectedCalibrationError()
    metric.update(probabilities[:2], labels[:2])
    tracemalloc.start()
    kept_before = tracemalloc.get_traced_memory()[0]
    started = time.perf_counter()
    metric = StreamingExpectedCalibrationError()
    for _ in range(NUM_SAMPLES // CHUNK):
        metric.update(probabilities, labels)
    seconds = time.perf_counter() - started
    kept = tracemalloc.get_traced_memory()[0] - kept_before
    error = abs(metric.compute() - 0.45)
    print(f"samples                {NUM_SAMPLES:.0e}")
    print(f"ECE                    {metric.compute():.12f} (expected 0.45, off by {error:.1e})")
    print(f"seconds                {seconds:.1f}")
    print(f"memory kept, KiB       {kept / 1024:.1f}")
    print(f"torchmetrics           {_torchmetrics(probabilities, labels)}")


def _torchmetrics(probabilities: np.ndarray, labels: np.ndarray) -> str:
    try:
        import torch

        import_torchvision()
        from torchmetrics.functional.classification.calibration_error import (  # type: ignore[import-not-found, unused-ignore]
            binary_calibration_error,
        )
    except ImportError:
        return "not installed"
    repeats = NUM_SAMPLES // CHUNK
    confidence = torch.from_numpy(probabilities[:, 0]).float().repeat(repeats)
    right = torch.from_numpy(labels == 0).int().repeat(repeats)
    return f"{float(binary_calibration_error(confidence, right, n_bins=15)):.6f}"


if __name__ == "__main__":
    main()
