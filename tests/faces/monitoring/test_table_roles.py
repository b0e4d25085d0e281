import numpy as np
import pandas as pd
import pytest

from shiftcal.core.errors import InvalidInputError
from shiftcal.faces.monitoring.table_roles import table_roles


def test_columns_of_classes_are_found_by_their_endings() -> None:
    frame = pd.DataFrame(
        {
            "y_pred_proba_card": [0.2, 0.5, 0.3],
            "y_pred_proba_prepaid_card": [0.7, 0.3, 0.3],
            "y_pred_proba_none": [0.11, 0.2, 0.4],
            "y_true": ["card", "prepaid_card", "card"],
            "y_pred": ["prepaid_card", "card", "none"],
            "income": [1.0, 2.0, 3.0],
            "date": pd.date_range("2024", periods=3),
            "customer": ["a", "b", "c"],
        }
    )
    roles = table_roles(frame)
    assert roles.model.classes == ("card", "prepaid_card", "none")
    assert (roles.label, roles.features) == ("y_true", ("income",))
    assert roles.left_out == ("y_pred", "date", "customer")
    found = roles.model.predict_proba(frame)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    np.testing.assert_allclose(found[0], np.array([0.2, 0.7, 0.11]) / 1.01)


def test_a_single_column_is_for_the_second_of_two_labels() -> None:
    frame = pd.DataFrame({"score": [0.2, 0.9], "label": [0.0, 1.0], "a": [1.0, 1.0]})
    roles = table_roles(frame)
    assert roles.model.classes == (0.0, 1.0)
    np.testing.assert_allclose(roles.model.predict_proba(frame), [[0.8, 0.2], [0.1, 0.9]])
    assert "score (class 1.0)" in roles.words()


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"score": [0.5], "a": [1]}, "--label COLUMN"),
        ({"label": [0], "a": [1]}, "expected a column probability_<class>"),
        ({"label": [0, 1, 2], "score": [0.1, 0.2, 0.3]}, "labels of two classes"),
        ({"label": ["x", "y", None], "score": [0.1, 0.2, 0.3]}, "a label in each row, and 1 of the first 3"),
        ({"label": ["x", "y", " "], "score": [0.1, 0.2, 0.3]}, "a label in each row, and 1 of the first 3"),
        ({"label": ["x", "z"], "proba_x": [0.1, 0.2], "proba_y": [0.9, 0.8]}, "--columns CLASS=COLUMN"),
    ],
)
def test_what_can_not_be_guessed_is_said(columns: dict[str, list[object]], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        table_roles(pd.DataFrame(columns))
