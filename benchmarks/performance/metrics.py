"""Metrics against torchmetrics and torch-uncertainty, where these are installed, and how they grow."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from benchmarks.performance.measuring import Measurement, median_seconds, slope

from shiftcal.core.vision_guard import import_torchvision
from shiftcal.metrics import METRICS, brier_score, expected_calibration_error

_REPEATS = 2
_WITHOUT_SORTING = ("accuracy", "expected_calibration_error", "brier_score", "negative_log_likelihood")


def predictions(num_rows: int, num_classes: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Probabilities in float32, and labels."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(num_rows, num_classes, generator=generator).mul_(2)
    return torch.softmax(logits, dim=-1), torch.randint(num_classes, (num_rows,), generator=generator)


def measure(quick: bool) -> list[Measurement]:
    """The lines of this topic."""
    rows = [1_000, 10_000, 100_000] if quick else [10_000, 100_000, 1_000_000, 10_000_000]
    classes = [10, 100, 1_000] if quick else [10, 100, 1_000, 10_000]
    samples = [predictions(num_rows, 10) for num_rows in rows]
    lines = _against_peers(*samples[-1])
    for name in METRICS:
        # Those that sort all rows are shown to a million: the slope is seen there, too.
        lines.append(_growth(name, "rows", samples if name in _WITHOUT_SORTING else samples[:-1]))
    samples = [predictions(2_000, num_classes) for num_classes in classes]
    for name in ("expected_calibration_error", "brier_score", "classwise_calibration_error"):
        lines.append(_growth(name, "classes", samples))
    return lines


def _growth(name: str, of: str, samples: list[tuple[torch.Tensor, torch.Tensor]]) -> Measurement:
    """The largest sample, with the slope over all of them."""
    function: Callable[..., float] = METRICS[name].function
    seconds = [median_seconds({name: partial(function, *sample)}, _REPEATS)[name] for sample in samples]
    sizes = [probabilities.shape[0 if of == "rows" else 1] for probabilities, _ in samples]
    num_rows, num_classes = samples[-1][0].shape
    grown = f"slope {slope(sizes, seconds):.2f} from {sizes[0]:,} to {sizes[-1]:,} {of}"
    return Measurement(name, f"{num_rows:,} x {num_classes:,}, float32; {grown}", seconds[-1])


def _against_peers(probabilities: torch.Tensor, labels: torch.Tensor) -> list[Measurement]:
    peers = _peers()
    lines = []
    for kind in (torch.float32, torch.float64):
        own = probabilities.to(kind)
        for function, peer, bar in (
            (expected_calibration_error, "torchmetrics", "at most 0.6"),
            (brier_score, "torch-uncertainty", "at most 0.4"),
        ):
            contenders: dict[str, Callable[[], object]] = {"ours": partial(function, own, labels)}
            if peer in peers:
                contenders[peer] = partial(peers[peer], own, labels)
            seconds = median_seconds(contenders, _REPEATS)
            size = f"{len(labels):,} x 10, {str(kind).removeprefix('torch.')}"
            lines.append(Measurement(function.__name__, size, seconds["ours"], peer, seconds.get(peer), bar))
    return lines


def _peers() -> dict[str, Callable[[torch.Tensor, torch.Tensor], Any]]:
    try:
        import_torchvision()
        from torch_uncertainty.metrics import BrierScore
        from torchmetrics.functional.classification import multiclass_calibration_error
    except ImportError:
        return {}
    return {
        "torchmetrics": lambda p, y: multiclass_calibration_error(p, y, p.shape[1], n_bins=15),
        "torch-uncertainty": lambda p, y: BrierScore(num_classes=p.shape[1])(p, y),
    }
