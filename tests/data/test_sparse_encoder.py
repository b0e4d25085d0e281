import time

import numpy as np
import pytest
from scipy import sparse

from shiftcal.core.errors import InvalidInputError
from shiftcal.data.encoders import encoder_from_plain
from shiftcal.data.sparse_encoder import SparseEncoder


def hashed(num_rows: int, num_words: int) -> sparse.csr_array:
    """Rows of 40 words, hashed to 2^20 columns."""
    generator = np.random.default_rng(0)
    columns = generator.choice(2**20, num_words, replace=False)[generator.integers(0, num_words, (num_rows, 40))]
    rows = np.repeat(np.arange(num_rows), 40)
    return sparse.csr_array((np.ones(rows.size), (rows, columns.ravel())), shape=(num_rows, 2**20))


def test_few_columns_are_taken_as_they_are() -> None:
    rows = hashed(50, 30)
    encoder = SparseEncoder.fit(rows)
    used = np.flatnonzero(rows.sum(axis=0))
    np.testing.assert_array_equal(encoder.encode(rows, "X"), rows[:, used].toarray())
    assert encoder.description() == {"sparse matrix": "30 of 1048576 columns are used, as they are"}


def test_many_columns_become_components_in_seconds() -> None:
    rows = hashed(300, 3000)
    started = time.monotonic()
    encoder = SparseEncoder.fit(rows)
    features = encoder.encode(rows, "X")
    assert time.monotonic() - started < 10
    assert features.shape == (300, 256)
    # Of all that is in the rows, as much is kept as the 256 largest singular values have.
    largest = np.linalg.svd(rows[:, encoder.kept.numpy()].toarray(), compute_uv=False)[:256]
    assert np.linalg.norm(features) > 0.99 * np.linalg.norm(largest)
    again = encoder_from_plain(encoder.as_plain())
    assert again is not None
    np.testing.assert_array_equal(again.encode(rows[:5], "X"), encoder.encode(rows[:5], "X"))


def test_other_rows_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="one that is empty"):
        SparseEncoder.fit(sparse.csr_array((5, 9)))
    encoder = SparseEncoder.fit(sparse.eye_array(4).tocsr())
    with pytest.raises(InvalidInputError, match=r"X: expected \(rows, 4\) as the source, got \(5, 5\)"):
        encoder.encode(sparse.eye_array(5), "X")
    with pytest.raises(InvalidInputError, match="finite"):
        encoder.encode(sparse.csr_array(np.full((1, 4), np.nan)), "X")
