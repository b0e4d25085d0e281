"""Exactness, memory and speed of the streaming calibration error on 4e7 samples.

torchmetrics, where it is installed, is asked the same; it is not a dependency.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from collections.abc import Iterator

import numpy as np
from benchmarks.frame import Benchmark, Job

from shiftcal.core.vision_guard import import_torchvision
from shiftcal.metrics import StreamingExpectedCalibrationError

NUM_SAMPLES = 40_000_000
CHUNK = 1_000_000
CONFIDENCE, ACCURACY = 0.95, 0.5


def measure() -> Iterator[dict[str, float | str]]:
    """The error, the time and the memory that the metric keeps."""
    probabilities = np.tile([CONFIDENCE, 1 - CONFIDENCE], (CHUNK, 1))
    labels = np.arange(CHUNK, dtype=np.int64) % 2
    StreamingExpectedCalibrationError().update(probabilities[:2], labels[:2])
    tracemalloc.start()
    kept_before = tracemalloc.get_traced_memory()[0]
    started = time.process_time()
    metric = StreamingExpectedCalibrationError()
    for _ in range(NUM_SAMPLES // CHUNK):
        metric.update(probabilities, labels)
    seconds = time.process_time() - started
    kept = tracemalloc.get_traced_memory()[0] - kept_before
    yield {
        "ece": metric.compute(),
        "off_by": abs(metric.compute() - (CONFIDENCE - ACCURACY)),
        "cpu_seconds": seconds,
        "kept_kib": kept / 1024,
        "torchmetrics_ece": _of_torchmetrics(probabilities, labels),
    }


def _of_torchmetrics(probabilities: np.ndarray, labels: np.ndarray) -> float | str:
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
    return float(binary_calibration_error(confidence, right, n_bins=15))


def jobs(_: argparse.Namespace) -> Iterator[Job]:
    """The one."""
    yield Job({"samples": NUM_SAMPLES, "confidence": CONFIDENCE, "accuracy": ACCURACY}, measure)


BENCHMARKS = {"streaming_metrics": Benchmark(jobs)}
