from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from shiftcal.data.pseudo_label_rounds import PseudoLabelRounds
from shiftcal.runs.reporting import RunContents
from shiftcal.runs.reporting.figures.pseudo_labels import draw_class_shares, draw_pseudo_labels, pseudo_labels_info


@pytest.fixture
def rounds() -> PseudoLabelRounds:
    labels = np.array([[0, 0, -1, -1, -1], [0, 1, 1, 2, -1]], dtype=np.int16)
    return PseudoLabelRounds(np.array([3, 4]), labels, np.array([0.9, 0.8]), np.array([1.0, 0.75]))


def test_info_of_a_known_problem(make_run: Callable[..., RunContents], rounds: PseudoLabelRounds) -> None:
    info = pseudo_labels_info(replace(make_run(), pseudo_labels=rounds))
    assert info is not None
    assert info.epoch.tolist() == [3, 4]
    np.testing.assert_allclose(info.selected, [0.4, 0.8])
    np.testing.assert_allclose(info.agreement, [np.nan, 0.5])
    np.testing.assert_allclose(info.class_share, [0.25, 0.5, 0.25, 0, 0])
    assert info.classes[-1] == "class 4"


def test_there_is_none_without_pseudo_labels(make_run: Callable[..., RunContents]) -> None:
    assert pseudo_labels_info(make_run()) is None
    assert pseudo_labels_info(replace(make_run(), pseudo_labels=PseudoLabelRounds.none_yet(5, 5))) is None


@pytest.mark.parametrize("num_classes", [5, 100])
def test_figures_are_drawn_with_and_without_labels(
    make_run: Callable[..., RunContents], rounds: PseudoLabelRounds, num_classes: int
) -> None:
    for known in (rounds, replace(rounds, true_precision=None)):
        info = pseudo_labels_info(replace(make_run(num_classes=num_classes), pseudo_labels=known))
        assert info is not None
        by_round = draw_pseudo_labels(info)
        by_round.draw_without_rendering()
        assert len(by_round.axes[0].lines) == (3 if known.true_precision is None else 4)
        draw_class_shares(info).draw_without_rendering()
