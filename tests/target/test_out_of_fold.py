import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import PredefinedSplit, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from shiftcal.target.out_of_fold import out_of_fold_log_odds


def test_it_gives_what_scikit_learn_gives() -> None:
    """To the bit, with weights of rows, and folds of unequal sizes."""
    generator = np.random.default_rng(0)
    rows, labels = generator.normal(size=(40, 3)), np.arange(40) % 2
    weights, folds = generator.uniform(1, 2, 40), generator.integers(0, 3, 40)
    model = make_pipeline(StandardScaler(), LogisticRegression())
    found = out_of_fold_log_odds(model, rows, labels, folds, logisticregression__sample_weight=weights)
    expected = cross_val_predict(
        model,
        rows,
        labels,
        cv=PredefinedSplit(folds),
        method="decision_function",
        params={"logisticregression__sample_weight": weights},
    )
    np.testing.assert_array_equal(found, expected)
