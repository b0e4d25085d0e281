import numpy as np
from scipy import sparse

from shiftcal.target.sampling import RowSample, sampled_rows


def test_few_rows_all_stay_in_order() -> None:
    sample = RowSample(most=10)
    for start in (0, 4):
        rows = np.arange(start, start + 4)
        sample.add(rows, sparse.csr_matrix(rows[:, None]), None)
    numbers, matrix, nothing = sample.columns()
    assert numbers.tolist() == list(range(8))
    assert matrix.toarray().ravel().tolist() == list(range(8))
    assert nothing is None


def test_of_a_long_stream_an_even_sample_stays() -> None:
    sample = RowSample(most=500)
    for start in range(0, 20_000, 70):
        sample.add(np.arange(start, min(start + 70, 20_000)))
    (numbers,) = sample.columns()
    assert len(numbers) == 500
    assert sample.num_rows == 20_000
    assert (np.diff(numbers) > 0).all()
    assert abs(numbers.mean() - 10_000) < 4 * 20_000 / np.sqrt(12 * 500)


def test_row_numbers_are_the_same_each_time() -> None:
    assert sampled_rows(5).tolist() == [0, 1, 2, 3, 4]
    assert (sampled_rows(100, 7) == sampled_rows(100, 7)).all()
