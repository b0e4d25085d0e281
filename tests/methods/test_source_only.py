from dataclasses import replace

import torch
from sklearn.linear_model import LogisticRegression

from shiftcal.data.batches import ShiftProblem
from shiftcal.data.inputs import ArrayInputs
from shiftcal.training.fit import fit_model
from shiftcal.training.recipe import Recipe


def test_linear_backbone_gives_the_predictions_of_logistic_regression(features: ShiftProblem) -> None:
    assert isinstance(features.source.inputs, ArrayInputs)
    # Compressed, so that the classes overlap and the solution is finite.
    noise = torch.randn(120, 4, generator=torch.Generator().manual_seed(0))
    values = 0.4 * features.source.inputs.values + noise
    source = replace(features.source, inputs=ArrayInputs(values))
    recipe = Recipe.from_names(
        "source-only",
        backbone="linear",
        method_options={"weight_decay": 0.0, "learning_rate": 0.02},
        training={"epochs": 300, "batch_size": 120, "validation_fraction": 0.0},
    )
    ours = torch.softmax(fit_model(ShiftProblem(source, None), recipe).predict(source.inputs).logits, dim=-1)
    reference = LogisticRegression(C=1e6, max_iter=1000).fit(values.numpy(), features.source.labels)
    expected = torch.from_numpy(reference.predict_proba(values.numpy())).float()
    assert (ours - expected).abs().mean() < 0.02
