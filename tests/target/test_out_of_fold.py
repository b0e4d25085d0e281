import numpy as np
from sklearn import config_context
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


def test_a_program_that_routes_metadata_does_not_stop_weights() -> None:
    """As any does that imports skada, which sets it for all."""
    rows, labels = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
    model = make_pipeline(StandardScaler(), LogisticRegression())
    weights, folds = np.ones(40), np.arange(40) % 4
    plain = out_of_fold_log_odds(model, rows, labels, folds, logisticregression__sample_weight=weights)
    with config_context(enable_metadata_routing=True):
        routed = out_of_fold_log_odds(model, rows, labels, folds, logisticregression__sample_weight=weights)
    np.testing.assert_array_equal(routed, plain)
