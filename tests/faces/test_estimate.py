"""What to expect on data without labels, by every face: classifier, calibrator, command line."""

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from shiftcal import AdaptiveClassifier, ShiftCalibrator
from shiftcal.core.errors import InvalidInputError
from shiftcal.faces.cli import main

pytestmark = pytest.mark.usefixtures("coarse_estimate")
Data = tuple[np.ndarray, np.ndarray]


def clusters(num_rows: int, seed: int, moved: float = 0.0) -> Data:
    generator = np.random.default_rng(seed)
    labels = generator.integers(3, size=num_rows)
    features = 3 * np.eye(3, 6)[labels] + generator.normal(size=(num_rows, 6))
    features[:, 0] += moved
    return features.astype(np.float32), labels


@pytest.fixture(scope="module")
def classifier() -> AdaptiveClassifier:
    return AdaptiveClassifier("source-only", epochs=5).fit(*clusters(400, 0), clusters(200, 1, moved=2)[0])


def test_a_new_batch_is_judged_without_refitting(classifier: AdaptiveClassifier, tmp_path: Path) -> None:
    same, shifted = clusters(250, 2), clusters(250, 3, moved=2.0)
    before = classifier.predict_proba(same[0])
    expected = []
    for inputs, labels in (same, shifted):
        found = classifier.estimate(inputs)
        right = (classifier.predict(inputs) == labels).mean()
        assert found.interval is not None
        assert found.interval[0] <= right <= found.interval[1]
        assert found.num_rows == 250
        expected.append(found)
    assert expected[0].accuracy > expected[1].accuracy
    np.testing.assert_array_equal(before, classifier.predict_proba(same[0]))
    classifier.save(tmp_path / "run")
    assert AdaptiveClassifier.load(tmp_path / "run").estimate(shifted[0]).as_plain() == expected[1].as_plain()


def test_of_the_target_of_training_it_says_what_fit_said(tmp_path: Path) -> None:
    target = clusters(150, 1, moved=2)[0]
    fitted = AdaptiveClassifier(epochs=3).fit(*clusters(300, 0), target)
    fitted.save(tmp_path / "run")
    for model in (fitted, AdaptiveClassifier.load(tmp_path / "run")):
        found = model.estimate(target)
        assert found.accuracy == pytest.approx(fitted.estimated_accuracy_, abs=1e-6)
        assert found.verdict == fitted.verdict_


def test_many_rows_are_judged_by_a_sample(classifier: AdaptiveClassifier, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs, labels = clusters(900, 4, moved=2.0)
    monkeypatch.setattr("shiftcal.training.fitted_model.sampled_rows", lambda num_rows: np.arange(0, num_rows, 3))
    found = classifier.estimate(inputs)
    assert found.num_rows == 900
    assert found.accuracy == pytest.approx((classifier.predict(inputs) == labels).mean(), abs=0.1)


def test_an_adapted_classifier_is_judged_by_its_reference(tmp_path: Path) -> None:
    images, labels = np.random.default_rng(0).integers(0, 256, (120, 8, 8), dtype=np.uint8), np.arange(120) % 2
    images[labels == 1, :, :4] //= 4
    adapted = AdaptiveClassifier("drst", epochs=2, fallback=False).fit(images, labels, images[:60] // 2)
    adapted.save(tmp_path / "run")
    assert adapted.estimate(images[:60] // 2).accuracy == pytest.approx(adapted.estimated_accuracy_, abs=1e-6)
    found = AdaptiveClassifier.load(tmp_path / "run").estimate(images[60:] // 2)
    assert found.as_plain() == adapted.estimate(images[60:] // 2).as_plain()


def test_a_calibrated_model_estimates_new_batches() -> None:
    inputs, labels = clusters(600, 0)
    model = LogisticRegression().fit(inputs[:300], labels[:300])
    calibrated = ShiftCalibrator(model).fit(inputs[300:], labels[300:], clusters(300, 1, moved=2)[0])
    batch, truth = clusters(500, 4)
    found = calibrated.estimate(batch)
    assert found.accuracy == pytest.approx((model.predict(batch) == truth).mean(), abs=0.05)
    assert set(found.metrics) >= {"accuracy", "balanced_accuracy", "macro_f1", "brier_score"}
    assert np.sum(found.confusion) == pytest.approx(1)


def test_prediction_sets_cover_a_shifted_target() -> None:
    """One noisy boundary; the target lies where the noise is. Unweighted sets would cover too little there."""
    generator = np.random.default_rng(0)

    def draw(num_rows: int, centre: float) -> tuple[np.ndarray, np.ndarray]:
        X = generator.normal(centre, 1.0, size=(num_rows, 1))
        return X, (generator.random(num_rows) < 1 / (1 + np.exp(-2 * X[:, 0]))).astype(int)

    X, y = draw(1500, 2.0)
    X_target, y_target = draw(1000, 0.5)
    classifier = AdaptiveClassifier(epochs=20, training_options={"validation_fraction": 0.5}).fit(X, y, X_target)
    sets = classifier.predict_set(X_target, coverage=0.8)
    assert sets.dtype == bool
    assert sets.any(axis=1).all()
    assert sets[np.arange(1000), y_target].mean() > 0.77
    assert classifier.predict_set(X_target, coverage=1.0).all()


def test_without_held_out_rows_there_is_no_estimate() -> None:
    inputs, labels = clusters(60, 0)
    alone = AdaptiveClassifier("source-only", epochs=1, training_options={"validation_fraction": 0.0})
    with pytest.raises(InvalidInputError, match="larger validation_fraction"):
        alone.fit(inputs, labels).estimate(inputs)


def test_the_command_line_takes_a_run_and_data(
    classifier: AdaptiveClassifier, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    classifier.save(tmp_path / "run")
    np.save(tmp_path / "batch.npy", clusters(100, 5)[0])
    # As text: the next test.
    assert main(["estimate", str(tmp_path / "run"), "--data", str(tmp_path / "batch.npy"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["num_rows"] == 100
    assert found["metrics"]["accuracy"]["low"] <= found["metrics"]["accuracy"]["value"]


def test_the_command_line_takes_tables_of_predictions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    generator = np.random.default_rng(0)
    for name in ("source", "target"):
        chance = generator.uniform(0.5, 1, 200)
        labels = np.where(generator.uniform(size=200) < chance, "a", "b")
        rows = [f"{p:.6f},{1 - p:.6f},{label}" for p, label in zip(chance, labels, strict=True)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["probability_a,probability_b,label", *rows]))
    arguments = ["estimate", "--source", str(tmp_path / "source.csv"), "--target", str(tmp_path / "target.csv")]
    assert main(arguments) == 0
    assert "90 % interval" in capsys.readouterr().out
    assert main([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["metrics"]["accuracy"]["value"] == pytest.approx(0.75, abs=0.06)
    assert "auroc" in found["metrics"]


def test_the_command_line_says_that_there_are_new_classes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A quarter of the target lies in a cluster that the source does not have."""
    generator = np.random.default_rng(0)
    means = 8 * np.eye(4, 6)
    for name, known in (("source", 3), ("target", 4)):
        labels = np.arange(360) % known
        features = means[labels] + generator.normal(size=(360, 6))
        distances = ((features[:, None] - means[:3]) ** 2).sum(axis=-1) / 20
        chances = np.exp(-distances) / np.exp(-distances).sum(axis=1, keepdims=True)
        rows = [",".join(f"{p:.6f}" for p in row) for row in chances]
        labelled = [f"{row},{'abc'[label % 3]}" for row, label in zip(rows, labels, strict=True)]
        (tmp_path / f"{name}.csv").write_text(
            "\n".join(["probability_a,probability_b,probability_c,label", *labelled])
        )
        np.save(tmp_path / f"{name}.npy", features)
    arguments = ["estimate", *(f"--{name}={tmp_path / name}.csv" for name in ("source", "target")), "--json"]
    arguments += [f"--{name}-features={tmp_path / name}.npy" for name in ("source", "target")]
    assert main([*arguments, "--report", str(tmp_path / "page.html")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["kind_of_shift"] == "new classes"
    assert found["new_classes"]["num_clusters"] == 1
    assert found["new_classes"]["seen_share"] == pytest.approx(0.25, abs=0.02)
    assert found["metrics"]["accuracy"]["high"] <= 1 - found["new_classes"]["seen_share"] + 1e-9
    assert "seem to be of new classes" in found["verdict"]
    assert "Rows of new classes" in (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("arguments", [[], ["run"], ["--source", "a.csv"]])
def test_what_is_missing_is_said(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", *arguments]) == 2
    assert "shiftcal estimate RUN --data SPEC" in capsys.readouterr().err
