"""`AdaptiveClassifier` against its own bare network: the forward pass and softmax, in batches, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from benchmarks.performance.measuring import Measurement, in_own_process, measured_once, median_seconds, slope

from shiftcal import AdaptiveClassifier

_REPEATS = 5
_NUM_CLASSES = 10
# Of 256 features, 64 and 256 rows were slower and 1,024 to 16,384 about alike; for pictures no others were tried.
_ROWS_AT_ONCE = {2: 2048, 4: 256}


def measure(quick: bool) -> list[Measurement]:
    """The lines of this topic."""
    shapes = {"features": (20_000 if quick else 200_000, 256), "images": (200 if quick else 5_000, 32, 32, 3)}
    lines = []
    for kind, shape in shapes.items():
        for method in ("source-only", "calibrated"):
            lines += _against_bare(method, kind, shape)
    for rows in (10_000, 100_000) if quick else (200_000, 2_000_000):
        seconds, peak = in_own_process(_memory, rows)
        lines.append(
            Measurement("predict_proba, calibrated", f"{rows:,} x 64, beside the input", seconds, peak_gigabytes=peak)
        )
    return [*lines, _by_columns("source-only", quick), _by_columns("calibrated", quick)]


def _by_columns(method: str, quick: bool) -> Measurement:
    """The widest rows, with the slope over all widths."""
    widths = [16, 64] if quick else [64, 256, 1_024, 4_096]
    seconds = []
    for width in widths:
        classifier, rows = fitted(method, (width,)), data(20_000, (width,), 2)
        run = partial(classifier.predict_proba, rows)
        seconds.append(median_seconds({method: run}, _REPEATS)[method])
    grown = f"slope {slope(widths, seconds):.2f} from {widths[0]:,} to {widths[-1]:,} columns"
    return Measurement(f"predict_proba, {method}", f"features 20,000 x {widths[-1]:,}; {grown}", seconds[-1])


def data(num_rows: int, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Features in float32, or pictures in uint8."""
    generator = np.random.default_rng(seed)
    if len(shape) == 1:
        return generator.standard_normal((num_rows, *shape), dtype=np.float32)
    return generator.integers(0, 256, (num_rows, *shape), dtype=np.uint8)


def fitted(method: str, shape: tuple[int, ...]) -> AdaptiveClassifier:
    """A classifier whose speed is to be measured; what it has learned does not matter."""
    source, target = (data(1_000, shape, seed) for seed in (0, 1))
    return AdaptiveClassifier(method, epochs=1).fit(source, np.arange(1_000) % _NUM_CLASSES, target)


def _against_bare(method: str, kind: str, shape: tuple[int, ...]) -> list[Measurement]:
    classifier = fitted(method, shape[1:])
    rows = data(shape[0], shape[1:], 2)
    contenders: dict[str, Callable[[], object]] = {
        "bare network": lambda: bare(classifier, rows),
        "predict_proba": lambda: classifier.predict_proba(rows),
        "with sets and ratio": lambda: _exhausted(classifier.iter_predict(rows, coverage=0.9)),
    }
    seconds = median_seconds(contenders, _REPEATS)
    size = f"{kind} {' x '.join(f'{number:,}' for number in shape)}"
    return [
        Measurement(f"{name}, {method}", size, seconds[name], "bare network", seconds["bare network"], bar)
        for name, bar in (("predict_proba", "at most 1.11"), ("with sets and ratio", "at most 1.18"))
    ]


@torch.inference_mode()
def bare(classifier: AdaptiveClassifier, rows: np.ndarray) -> torch.Tensor:
    """Probabilities of the network alone."""
    network = classifier.model_.network.eval()
    values = torch.from_numpy(rows)
    if values.ndim == 4:
        values = values.permute(0, 3, 1, 2)
    parts = []
    for batch in torch.split(values, _ROWS_AT_ONCE[values.ndim]):
        logits, _ = network(batch.float().div_(255) if batch.dtype == torch.uint8 else batch)
        parts.append(torch.softmax(logits, dim=-1))
    return torch.cat(parts)


def _exhausted(batches: Any) -> None:
    for _ in batches:
        pass


def _memory(num_rows: int) -> tuple[float, float]:
    torch.set_num_threads(1)
    classifier = fitted("calibrated", (64,))
    rows = data(num_rows, (64,), 2)
    return measured_once(lambda: classifier.predict_proba(rows))
