"""Arrow batches scored by a saved run: the same probabilities as by the model itself, in whatever batches."""

import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from shiftcal import AdaptiveClassifier, arrow_scorer
from shiftcal.core.errors import InvalidInputError
from shiftcal.faces.arrow_scorer import ArrowScorer

pytestmark = pytest.mark.usefixtures("coarse_estimate")
GENERATOR = np.random.default_rng(0)
LABELS = np.array(["no", "yes"])[np.arange(60) % 2]
NUMBERS = GENERATOR.normal(size=(60, 3)).astype(np.float32) + (LABELS == "yes")[:, None]
FRAME = pd.DataFrame(NUMBERS, columns=["a", "b", "c"]).assign(colour=np.where(NUMBERS[:, 0] > 0, "red", "blue"))
NEW = ["predicted_class", "confidence", "probability_no", "probability_yes", "density_ratio"]


@pytest.fixture(scope="module")
def by_table(tmp_path_factory: pytest.TempPathFactory) -> tuple[AdaptiveClassifier, ArrowScorer]:
    folder = tmp_path_factory.mktemp("runs") / "table"
    classifier = AdaptiveClassifier("source-only", epochs=2).fit(FRAME, LABELS, FRAME)
    classifier.save(folder)
    return classifier, arrow_scorer(folder)


def test_batches_of_any_size_give_what_the_model_says(by_table: tuple[AdaptiveClassifier, ArrowScorer]) -> None:
    classifier, scorer = by_table
    given = pa.Table.from_pandas(FRAME.assign(confidence=7), preserve_index=False)
    again: ArrowScorer = pickle.loads(pickle.dumps(scorer))  # as it comes to the workers of a cluster
    batches = [*given.to_batches(max_chunksize=25), pa.RecordBatch.from_pylist([], schema=given.schema)]
    scored = list(again.each(iter(batches)))
    assert [batch.num_rows for batch in scored] == [25, 25, 10, 0]
    assert all(batch.schema == scorer.schema(given.schema) for batch in scored)
    table = pa.Table.from_batches(scored)
    assert table.column_names == [*given.column_names, *(f"shiftcal_{n}" if n == "confidence" else n for n in NEW)]
    assert table.select(given.column_names) == given
    probabilities = classifier.predict_proba(FRAME)
    np.testing.assert_allclose(table["probability_yes"], probabilities[:, 1], rtol=1e-6)
    assert table["predicted_class"].to_pylist() == classifier.predict(FRAME).tolist()
    # Not to the bit: how a processor adds up the products of a matrix may depend on the number of its rows.
    at_once = scorer(given)
    assert at_once.schema == table.schema
    pd.testing.assert_frame_equal(at_once.to_pandas(), table.to_pandas(), rtol=1e-6)
    pd.testing.assert_frame_equal(scorer(FRAME)[["probability_yes"]], table.to_pandas()[["probability_yes"]])
    with pytest.raises(InvalidInputError, match="columns of the source are missing: 'colour'"):
        scorer(given.drop_columns("colour"))


def test_a_model_of_features_takes_a_column_of_lists(tmp_path: Path) -> None:
    classifier = AdaptiveClassifier("source-only", epochs=2).fit(NUMBERS, LABELS, NUMBERS)
    classifier.save(tmp_path / "run")
    given = pa.table({"id": np.arange(60), "embedding": list(NUMBERS)})
    scored = arrow_scorer(tmp_path / "run", features="embedding")(given)
    np.testing.assert_allclose(scored["probability_yes"], classifier.predict_proba(NUMBERS)[:, 1], rtol=1e-6)
    with pytest.raises(InvalidInputError, match="expected a column 'features' with lists of 3 numbers"):
        arrow_scorer(tmp_path / "run")(given)
    for wrong in ([[1.0, 2.0]], [[1.0, 2.0, None]], [[1.0, 2.0, 3.0], [1.0]]):
        with pytest.raises(InvalidInputError, match="lists of 3 finite numbers in every row"):
            arrow_scorer(tmp_path / "run", features="f")(pa.table({"f": wrong}))


def test_a_model_of_images_is_refused(tmp_path: Path) -> None:
    images = GENERATOR.integers(0, 255, (20, 8, 8)).astype(np.uint8)
    AdaptiveClassifier("source-only", epochs=1).fit(images, LABELS[:20], images).save(tmp_path / "run")
    with pytest.raises(InvalidInputError, match="got one of images"):
        arrow_scorer(tmp_path / "run")
