from collections.abc import Callable

import numpy as np
import pytest

from shiftcal.runs.predictions import Predictions
from shiftcal.runs.reporting import RunContents
from shiftcal.runs.reporting.figures.confidence import confidence_info, draw_confidence, shares


def test_shares_and_means(binary: Callable[..., Predictions]) -> None:
    run = RunContents("drl", {}, [], binary([1.0, 0.9]), binary([0.65, 0.3, 0.3, 0.1]))
    info = confidence_info(run, num_bins=5)
    assert info.source_share.tolist() == [0, 0, 0, 0, 1]
    assert info.target_share.tolist() == [0, 0, 0, 0.75, 0.25]
    assert (info.source_centre, info.target_centre) == pytest.approx((0.95, 0.7375))


def test_values_beyond_the_edges_are_counted() -> None:
    assert shares(np.array([-1.0, 0.2, 9.0]), np.array([0.0, 0.5, 1.0])).tolist() == pytest.approx([2 / 3, 1 / 3])


def test_both_domains_are_named(binary: Callable[..., Predictions]) -> None:
    figure = draw_confidence(confidence_info(RunContents("drl", {}, [], binary([0.9]), binary([0.6]))))
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == ["source, mean 0.90", "target, mean 0.60"]
