from pathlib import Path

import numpy as np
import pytest

from shiftcal.core.array_reading import write_own_file
from shiftcal.core.errors import DataUnavailableError, InvalidInputError
from shiftcal.data.batches import PseudoLabels
from shiftcal.data.pseudo_label_rounds import (
    PseudoLabelRounds,
    load_pseudo_label_rounds,
    save_pseudo_label_rounds,
)


def chosen(rows: list[int], labels: list[int]) -> PseudoLabels:
    return PseudoLabels(np.array(rows, dtype=np.int64), np.array(labels, dtype=np.int64))


@pytest.fixture
def rounds() -> PseudoLabelRounds:
    """Three rounds on five rows; of the rows that rounds 1 and 2 share, one of two keeps its label."""
    none = PseudoLabelRounds.none_yet(5, 3)
    first = none.with_round(4, chosen([0, 3], [2, 1]), 0.9)
    second = first.with_round(5, chosen([3, 0, 4], [1, 0, 1]), 0.8)
    return second.with_round(6, chosen([1, 2], [0, 0]), 0.7)


def test_numbers_of_a_known_problem(rounds: PseudoLabelRounds) -> None:
    assert rounds.labels.tolist() == [[2, -1, -1, 1, -1], [0, -1, -1, 1, 1], [-1, 0, 0, -1, -1]]
    assert rounds.epochs.tolist() == [4, 5, 6]
    np.testing.assert_allclose(rounds.share, [0.4, 0.6, 0.4])
    np.testing.assert_array_equal(rounds.agreement, [np.nan, 0.5, np.nan])
    np.testing.assert_allclose(rounds.class_shares(3), [1, 0, 0])


def test_records_are_of_their_own_epoch_and_plain() -> None:
    rounds = PseudoLabelRounds.none_yet(5, 3)
    assert rounds.record(1, 3) == {}
    rounds = rounds.with_round(4, chosen([0, 3], [2, 1]), 0.9)
    assert rounds.record(5, 3) == {}
    assert rounds.record(4, 3) == {
        "pseudo_labels": 2,
        "pseudo_share": 0.4,
        "pseudo_smallest_class_share": 0.0,
        "pseudo_largest_class_share": 0.5,
        "pseudo_estimated_precision": 0.9,
    }
    rounds = rounds.with_round(5, chosen([3, 0, 4], [1, 0, 1]), 0.8)
    assert rounds.record(5, 3)["pseudo_agreement"] == 0.5


def test_labels_take_as_few_bytes_as_they_can() -> None:
    assert PseudoLabelRounds.none_yet(5, 1000).labels.dtype == np.int16
    assert PseudoLabelRounds.none_yet(5, 40_000).labels.dtype == np.int32


@pytest.mark.parametrize("precision", [None, np.array([0.5, 0.25, 1.0])])
def test_survive_the_disk_and_a_checkpoint(
    rounds: PseudoLabelRounds, precision: np.ndarray | None, tmp_path: Path
) -> None:
    rounds = PseudoLabelRounds(rounds.epochs, rounds.labels, rounds.estimated_precision, precision)
    save_pseudo_label_rounds(rounds, tmp_path / "pseudo_labels.npz")
    loaded = load_pseudo_label_rounds(tmp_path / "pseudo_labels.npz", 3)
    for other in (loaded, PseudoLabelRounds.from_tensors(rounds.as_tensors())):
        assert other.arrays().keys() == rounds.arrays().keys()
        for name, array in rounds.arrays().items():
            np.testing.assert_array_equal(other.arrays()[name], array)
            assert other.arrays()[name].dtype == array.dtype


def test_other_files_are_said_to_be_none(tmp_path: Path) -> None:
    with pytest.raises(DataUnavailableError, match="no pseudo-labels at"):
        load_pseudo_label_rounds(tmp_path / "nothing.npz", 3)
    (tmp_path / "text.npz").write_text("not an archive")
    with pytest.raises(InvalidInputError, match="is not a pseudo-labels file"):
        load_pseudo_label_rounds(tmp_path / "text.npz", 3)
    np.savez(tmp_path / "other.npz", x=np.zeros(3))
    with pytest.raises(InvalidInputError, match="is not a pseudo-labels file"):
        load_pseudo_label_rounds(tmp_path / "other.npz", 3)
    for labels in (np.full((1, 4), 10**12), np.full((1, 4), -2), np.zeros((2, 4), np.int64), np.zeros(4)):
        arrays = {"epochs": np.array([1]), "labels": labels, "estimated_precision": np.ones(1)}
        write_own_file(tmp_path / "sealed.npz", arrays)
        with pytest.raises(InvalidInputError, match="is not a pseudo-labels file of shiftcal: expected"):
            load_pseudo_label_rounds(tmp_path / "sealed.npz", 3)
