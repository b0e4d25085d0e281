"""`ShiftCalibrator.fit` and `estimate` by the rows of the target, in a process for each size."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from benchmarks.performance.measuring import Measurement, in_own_process, measured_once, slope

from shiftcal import ShiftCalibrator

_WHAT = "ShiftCalibrator.fit and estimate"
_MOST_SOURCE_ROWS = 20_000


def measure(quick: bool) -> list[Measurement]:
    """The lines of this topic."""
    sizes = [1_000, 10_000] if quick else [1_000, 10_000, 100_000, 1_000_000]
    found = [in_own_process(_fit_and_estimate, num_rows, 64, 10) for num_rows in sizes]
    grown = slope(sizes, [seconds for seconds, _ in found])
    lines = [
        Measurement(_WHAT, f"{num_rows:,} x 64 features x 10 classes", seconds, peak_gigabytes=peak)
        for num_rows, (seconds, peak) in zip(sizes, found, strict=True)
    ]
    lines[-1] = replace(lines[-1], size=f"{lines[-1].size}; slope {grown:.2f}")
    if not quick:
        seconds, peak = in_own_process(_fit_and_estimate, 1_000_000, 512, 100)
        size, bar = "1,000,000 x 512 features x 100 classes", "at most 120 CPU s (60 s on 2 cores), 4 GB"
        lines.append(Measurement(_WHAT, size, seconds, bar=bar, peak_gigabytes=peak))
    return lines


def _fit_and_estimate(num_rows: int, num_columns: int, num_classes: int) -> tuple[float, float]:
    torch.set_num_threads(1)
    generator = np.random.default_rng(0)
    centres = generator.standard_normal((num_classes, num_columns), dtype=np.float32)

    def rows(count: int, moved: float) -> tuple[np.ndarray, np.ndarray]:
        labels = generator.integers(0, num_classes, count)
        values = generator.standard_normal((count, num_columns), dtype=np.float32)
        for part in np.array_split(np.arange(count), max(count // 50_000, 1)):
            values[part] = 3 * values[part] + centres[labels[part]] + np.float32(moved)
        return values, labels

    def model(inputs: np.ndarray) -> np.ndarray:
        return inputs @ centres.T / 9

    (source, labels), (target, _) = rows(min(num_rows, _MOST_SOURCE_ROWS), 0.0), rows(num_rows, 0.3)
    calibrator = ShiftCalibrator(model, outputs="logits")
    return measured_once(lambda: calibrator.fit(source, labels, target).estimate(target))
