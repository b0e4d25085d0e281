import numpy as np

from shiftcal.target.column_encoding import ColumnEncoder


def test_categories_become_indicators_and_missing_numbers_medians() -> None:
    encoder = ColumnEncoder(
        {"size": np.array([1.0, 3.0, np.nan, 5.0]), "colour": np.array(["red", None, "blue", "red"], dtype=object)}
    )
    found = encoder.encoded(
        {"size": np.array([2.0, np.nan, np.inf]), "colour": np.array(["blue", "green", None], dtype=object)}
    )
    np.testing.assert_array_equal(found, [[2, 1, 0], [3, 0, 0], [3, 0, 0]])


def test_of_many_categories_the_most_frequent_ones_count() -> None:
    names = np.array([f"name {k}" for k in range(100)] * 2 + ["often"] * 5, dtype=object)
    found = ColumnEncoder({"name": names}).encoded({"name": np.array(["often"], dtype=object)})
    assert found.shape == (1, 50)
    assert found.sum() == 1
