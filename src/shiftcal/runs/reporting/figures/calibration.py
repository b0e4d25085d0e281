"""What is drawn of confidence: reliability, histograms, risk and coverage, before and after calibration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from shiftcal.metrics import expected_calibration_error, reliability_curve, risk_coverage_curve
from shiftcal.runs.predictions import Predictions
from shiftcal.runs.reporting.contents import Domain, RunContents
from shiftcal.runs.reporting.figures.drawing import (
    DOMAIN_COLOURS,
    FAINT,
    INK,
    RUN_COLOURS,
    list_below_each_other,
    new_axes,
    new_figure,
    percentages,
    plain,
    run_styles,
    shown,
)


class HistogramInfo(NamedTuple):
    """Share of each domain's inputs per bin; `centre` is what the legend tells of a domain."""

    edges: NDArray[np.float64]
    source_share: NDArray[np.float64]
    target_share: NDArray[np.float64]
    source_centre: float
    target_centre: float

    @property
    def domains(self) -> tuple[tuple[Domain, NDArray[np.float64], float], ...]:
        """Name, shares and centre of each domain."""
        return ("source", self.source_share, self.source_centre), ("target", self.target_share, self.target_centre)


def shares(values: NDArray[np.float64], edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Share of the values per bin; those beyond the edges count in the outermost bins, so the sum is 1."""
    counts, _ = np.histogram(np.clip(values, edges[0], edges[-1]), edges)
    return counts / len(values)


def confidence_info(run: RunContents, num_bins: int = 20) -> HistogramInfo:
    """Shares of inputs in equal-width bins of the predicted class's probability, and its means."""
    edges = np.linspace(0.0, 1.0, num_bins + 1)
    source, target = run.source.confidence, run.target.confidence
    return HistogramInfo(
        edges, shares(source, edges), shares(target, edges), float(source.mean()), float(target.mean())
    )


def draw_confidence(info: HistogramInfo) -> Figure:
    """Both histograms over each other, with a line at each mean."""
    figure = new_figure()
    axes = new_axes(figure, "confidence", "share of inputs")
    draw_overlaid(axes, info, "{domain}, mean {centre:.2f}")
    axes.set_xlim(0, 1)
    figure.legend(loc="outside upper center", ncols=2)
    return figure


def draw_overlaid(axes: Axes, info: HistogramInfo, label: str) -> None:
    """Source and target as filled steps in their colours, each with a dashed line at its centre."""
    for domain, share, centre in info.domains:
        colour = DOMAIN_COLOURS[domain]
        axes.stairs(share, info.edges, fill=True, color=colour, alpha=0.22)
        axes.stairs(share, info.edges, color=colour, linewidth=1.4, label=label.format(domain=domain, centre=centre))
        axes.axvline(centre, color=colour, linestyle="--", linewidth=1)
    percentages(axes.yaxis)
    axes.set_ylim(0, 1.05 * max(info.source_share.max(), info.target_share.max()))


class ReliabilityInfo(NamedTuple):
    """The bins that hold at least one input, in order of confidence."""

    domain: Domain
    left: NDArray[np.float64]
    width: NDArray[np.float64]
    confidence: NDArray[np.float64]
    accuracy: NDArray[np.float64]
    num_inputs: NDArray[np.int64]
    calibration_error: float


def reliability_info(predictions: Predictions, domain: Domain) -> ReliabilityInfo | None:
    """Accuracy and mean confidence in equal-width bins of confidence; None without labels."""
    if predictions.labels is None:
        return None
    curve = reliability_curve(predictions.probabilities, predictions.labels)
    filled = curve.count > 0
    return ReliabilityInfo(
        domain=domain,
        left=curve.bin_edges[:-1][filled],
        width=np.diff(curve.bin_edges)[filled],
        confidence=curve.confidence[filled],
        accuracy=curve.accuracy[filled],
        num_inputs=curve.count[filled],
        calibration_error=expected_calibration_error(predictions.probabilities, predictions.labels),
    )


def draw_reliability(info: ReliabilityInfo) -> Figure:
    """Bars of accuracy with the gap to the mean confidence hatched, above the number of inputs per bin."""
    figure = new_figure(height=4.4)
    upper, lower = figure.subplots(2, sharex=True, height_ratios=(4, 1))
    _draw_bars(upper, info)
    _draw_counts(lower, info)
    figure.legend(loc="outside upper center", ncols=2)
    return figure


def _draw_bars(axes: Axes, info: ReliabilityInfo) -> None:
    plain(axes)
    colour = DOMAIN_COLOURS[info.domain]
    axes.bar(
        info.left,
        info.accuracy,
        info.width,
        align="edge",
        color=colour,
        alpha=0.65,
        edgecolor="white",
        label="is right",
    )
    axes.bar(
        info.left,
        info.confidence - info.accuracy,
        info.width,
        bottom=info.accuracy,
        align="edge",
        facecolor="none",
        edgecolor=INK,
        linewidth=0.7,
        hatch="////",
        label="gap to what it says",
    )
    axes.plot([0, 1], [0, 1], color=FAINT, linestyle="--", linewidth=1)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.set_ylabel("accuracy")


def _draw_counts(axes: Axes, info: ReliabilityInfo) -> None:
    plain(axes)
    axes.bar(
        info.left,
        info.num_inputs,
        info.width,
        align="edge",
        color=DOMAIN_COLOURS[info.domain],
        alpha=0.65,
        edgecolor="white",
    )
    axes.set_ylabel("inputs")
    axes.set_xlabel("confidence")
    axes.locator_params(axis="y", nbins=3, integer=True)


class RiskCoverageInfo(NamedTuple):
    """A curve thinned to what a figure can show, and the area below the whole one."""

    label: str
    coverage: NDArray[np.float64]
    risk: NDArray[np.float64]
    area: float


def risk_coverage_info(predictions: Predictions, label: str, max_points: int = 300) -> RiskCoverageInfo | None:
    """Error rate against the share of inputs answered, most confident first; None without labels."""
    if predictions.labels is None:
        return None
    curve = risk_coverage_curve(predictions.probabilities, predictions.labels)
    kept = np.unique(np.linspace(0, len(curve.coverage) - 1, max_points).round().astype(int))
    return RiskCoverageInfo(label, curve.coverage[kept], curve.risk[kept], curve.area)


def draw_risk_coverage(infos: Sequence[tuple[Domain, RiskCoverageInfo]]) -> Figure:
    """The curves of one run, in the colours of their domains."""
    return _draw_curves([(info, DOMAIN_COLOURS[domain], "-") for domain, info in infos])


def draw_risk_coverage_of_runs(infos: Sequence[RiskCoverageInfo | None]) -> Figure:
    """The curves of several runs on one domain, each in the style that its run has everywhere; None is left out."""
    styled = zip(infos, run_styles(len(infos)), strict=True)
    return _draw_curves([(info, *style) for info, style in styled if info is not None])


def _draw_curves(curves: Sequence[tuple[RiskCoverageInfo, str, str]]) -> Figure:
    figure = new_figure(height=2.9)
    axes = new_axes(figure, "coverage (share of inputs answered)", "error rate")
    for info, colour, line in curves:
        label = f"{shown(info.label)}, area {info.area:.3f}"
        axes.plot(info.coverage, info.risk, color=colour, linestyle=line, linewidth=1.6, label=label)
    for axis in (axes.xaxis, axes.yaxis):
        percentages(axis)
    axes.set_xlim(0, 1)
    # Errors of a perfect model are all zero, which is no range.
    axes.set_ylim(0, max(0.05, 1.1 * max(info.risk.max() for info, _, _ in curves)))
    list_below_each_other(figure, len(curves))
    return figure


class CalibratedConfidenceInfo(NamedTuple):
    """Share of inputs per bin of confidence, the means, and the accuracy that is expected."""

    edges: NDArray[np.float64]
    given_share: NDArray[np.float64]
    calibrated_share: NDArray[np.float64]
    given_mean: float
    calibrated_mean: float
    accuracy: float


def calibrated_confidence_info(
    given: NDArray[np.float64], calibrated: NDArray[np.float64], accuracy: float, num_bins: int = 20
) -> CalibratedConfidenceInfo:
    """Of probabilities (N, C) before and after."""
    edges = np.linspace(0.0, 1.0, num_bins + 1)
    before, after = given.max(axis=1), calibrated.max(axis=1)
    return CalibratedConfidenceInfo(
        edges, shares(before, edges), shares(after, edges), float(before.mean()), float(after.mean()), accuracy
    )


def draw_calibrated_confidence(info: CalibratedConfidenceInfo) -> Figure:
    """Both histograms over each other, with a line at the accuracy that is expected."""
    figure = new_figure()
    axes = new_axes(figure, "confidence on the target", "share of inputs")
    for words, share, mean, colour in (
        ("as given", info.given_share, info.given_mean, FAINT),
        ("calibrated", info.calibrated_share, info.calibrated_mean, RUN_COLOURS[1]),
    ):
        axes.stairs(share, info.edges, fill=True, color=colour, alpha=0.25)
        axes.stairs(share, info.edges, color=colour, linewidth=1.4, label=f"{words}, mean {mean:.2f}")
    axes.axvline(info.accuracy, color=INK, linestyle="--", linewidth=1, label="accuracy to expect")
    percentages(axes.yaxis)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1.05 * max(info.given_share.max(), info.calibrated_share.max()))
    figure.legend(loc="outside upper center", ncols=2)
    return figure
