"""Properties of the functional core that hold for any logits, labels and ratios."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from torch import Tensor

from shiftcal.functional.consistency import align_probabilities
from shiftcal.functional.density_ratio import bounded_domain_logit, domain_loss, ratio_from_logit
from shiftcal.functional.dual import target_potential, task_surrogate
from shiftcal.functional.predictive import one_hot, robust_probabilities
from shiftcal.functional.self_training import class_thresholds, select_class_balanced
from shiftcal.functional.temperature import fit_temperature
from shiftcal.target.clusters import fit_clusters, unit_rows
from shiftcal.target.prediction_sets import weighted_threshold

numbers = st.floats(-20, 20, allow_nan=False, width=64)
ratios = st.floats(0.1, 10)
sizes = st.tuples(st.integers(1, 6), st.integers(2, 5))


@st.composite
def logits(draw: st.DrawFn) -> Tensor:
    return torch.from_numpy(draw(arrays(np.float64, draw(sizes), elements=numbers)))


@st.composite
def cases(draw: st.DrawFn) -> tuple[Tensor, Tensor, Tensor]:
    """Logits, labels and density ratios."""
    values = draw(logits())
    count, num_classes = values.shape
    labels = draw(st.lists(st.integers(0, num_classes - 1), min_size=count, max_size=count))
    ratio = draw(st.lists(ratios, min_size=count, max_size=count))
    return values, torch.tensor(labels), torch.tensor(ratio, dtype=torch.float64)


@given(cases())
def test_a_ratio_of_one_is_the_softmax_and_a_constant_offset_changes_nothing(
    case: tuple[Tensor, Tensor, Tensor],
) -> None:
    values, _, ratio = case
    torch.testing.assert_close(robust_probabilities(values, torch.ones_like(ratio)), values.softmax(dim=-1))
    torch.testing.assert_close(robust_probabilities(values, ratio), robust_probabilities(values + 7, ratio))


@given(cases(), st.floats(0.2, 0.99))
def test_a_smaller_ratio_is_less_sure_of_the_same_class(case: tuple[Tensor, Tensor, Tensor], factor: float) -> None:
    values, _, ratio = case
    sure, less = robust_probabilities(values, ratio), robust_probabilities(values, factor * ratio)
    assert (less.amax(dim=-1) <= sure.amax(dim=-1) + 1e-12).all()
    clear = values.sort(dim=-1).values.diff(dim=-1)[:, -1] > 1e-6
    assert torch.equal(less.argmax(dim=-1)[clear], sure.argmax(dim=-1)[clear])


@given(cases(), st.floats(0, 1))
def test_more_class_regularisation_is_less_sure(case: tuple[Tensor, Tensor, Tensor], r: float) -> None:
    values, _, ratio = case
    plain, regular = (robust_probabilities(values, ratio, class_regularization=each) for each in (0.0, r))
    assert (regular.amax(dim=-1) <= plain.amax(dim=-1) + 1e-12).all()


@given(cases())
def test_the_surrogate_has_the_gradient_of_the_paper(case: tuple[Tensor, Tensor, Tensor]) -> None:
    values, labels, ratio = case
    values = values.clone().requires_grad_()
    task_surrogate(values, labels, ratio).backward()  # type: ignore[no-untyped-call]
    assert values.grad is not None
    expected = (robust_probabilities(values.detach(), ratio) - one_hot(labels, values)) / len(labels)
    torch.testing.assert_close(values.grad, expected)


@given(cases())
def test_the_potential_grows_with_the_ratio(case: tuple[Tensor, Tensor, Tensor]) -> None:
    """Its gradient f . z of centred logits is never negative."""
    values, _, ratio = case
    ratio = ratio.clone().requires_grad_()
    target_potential(values, ratio).backward()  # type: ignore[no-untyped-call]
    assert ratio.grad is not None
    assert (ratio.grad >= -1e-12).all()


@given(st.lists(st.floats(-50, 50), min_size=1, max_size=8), st.floats(1.01, 100), st.floats(0, 2))
def test_ratios_stay_within_their_bound_and_keep_their_order(raw: list[float], bound: float, strength: float) -> None:
    values = torch.tensor(raw, dtype=torch.float64).sort().values
    ratio = ratio_from_logit(bounded_domain_logit(values, bound), strength)
    assert (ratio >= bound**-strength * (1 - 1e-9)).all()
    assert (ratio <= bound**strength * (1 + 1e-9)).all()
    assert (ratio.diff() >= -1e-12).all()


@given(st.lists(numbers, min_size=1, max_size=5), st.lists(numbers, min_size=1, max_size=5), st.integers(2, 4))
def test_the_domain_loss_does_not_depend_on_how_many_rows_a_domain_has(
    source: list[float], target: list[float], times: int
) -> None:
    first, second = (torch.tensor(values, dtype=torch.float64) for values in (source, target))
    once, often = torch.cat([first, second]), torch.cat([first.repeat(times), second])
    torch.testing.assert_close(domain_loss(once, len(first)), domain_loss(often, times * len(first)))


@given(logits(), st.floats(0.05, 1))
def test_class_balanced_selection_takes_the_portion_of_each_class_and_its_surest(
    values: Tensor, portion: float
) -> None:
    probabilities = values.softmax(dim=-1)
    confidence, predicted = probabilities.max(dim=-1)
    thresholds = class_thresholds(confidence, predicted, values.shape[1], portion)
    rows, labels = select_class_balanced(probabilities, portion)
    assert set(rows.tolist()) >= {row for row in range(len(values)) if confidence[row] >= thresholds[predicted[row]]}
    assert len(rows) == len(labels) >= len(set(predicted.tolist()))


@given(logits())
def test_aligned_probabilities_stay_probabilities(values: Tensor) -> None:
    probabilities = values.softmax(dim=-1)
    num_classes = values.shape[1]
    aligned = align_probabilities(
        probabilities, torch.full((num_classes,), 1 / num_classes), probabilities.mean(dim=0)
    )
    torch.testing.assert_close(aligned.sum(dim=-1), torch.ones(len(values), dtype=torch.float64))


@given(cases(), st.floats(0.3, 3))
def test_the_temperature_of_scaled_logits_is_scaled(case: tuple[Tensor, Tensor, Tensor], factor: float) -> None:
    values, labels, _ = case
    plain, scaled = fit_temperature(values, labels), fit_temperature(factor * values, labels)
    if 0.01 < plain < 100 and 0.01 < scaled < 100:
        np.testing.assert_allclose(scaled, factor * plain, rtol=1e-3)


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=12), st.floats(0.05, 0.999), st.floats(0.1, 10), st.integers(0, 99)
)
def test_the_conformal_threshold_holds_the_wanted_mass(
    scores: list[float], coverage: float, test_weight: float, seed: int
) -> None:
    weights = np.random.default_rng(seed).uniform(0.1, 3, len(scores))
    values = np.array(scores)
    threshold = weighted_threshold(values, weights, test_weight, coverage)
    mass = weights[values <= threshold].sum() + (test_weight if np.isinf(threshold) else 0)
    assert mass >= coverage * (weights.sum() + test_weight) * (1 - 1e-9)


@given(st.integers(0, 99), st.floats(0.1, 10), st.floats(-5, 5))
def test_clusters_do_not_depend_on_units_that_all_columns_share(seed: int, scale: float, offset: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(30, 4, generator=generator, dtype=torch.float64)
    probabilities = torch.randn(30, 3, generator=generator, dtype=torch.float64).softmax(dim=-1)
    moved = scale * features + offset
    before = fit_clusters(unit_rows(features), probabilities).log_posteriors(features).exp()
    torch.testing.assert_close(
        fit_clusters(unit_rows(moved), probabilities).log_posteriors(moved).exp(), before, atol=1e-3, rtol=1e-3
    )


EXTREMES = (-1e30, -1e4, -1.0, -1e-30, 0.0, 1e-30, 1.0, 1e4, 1e30)


@given(
    arrays(np.float64, sizes, elements=st.sampled_from(EXTREMES)),
    st.sampled_from([1e-30, 1e-6, 1.0, 1e6]),
    st.sampled_from([torch.float32, torch.float64, torch.bfloat16]),
)
def test_extreme_logits_and_ratios_give_probabilities_row_by_row(
    raw: np.ndarray[tuple[int, ...], np.dtype[np.float64]], ratio: float, dtype: torch.dtype
) -> None:
    values = torch.from_numpy(raw).to(dtype)
    ratios_of_rows = torch.full((len(values),), ratio, dtype=dtype)
    probabilities = robust_probabilities(values, ratios_of_rows)
    assert torch.isfinite(probabilities).all()
    step = torch.finfo(dtype).eps
    torch.testing.assert_close(
        probabilities.double().sum(-1), torch.ones(len(values)).double(), atol=8 * step, rtol=0
    )
    alone = torch.cat([robust_probabilities(values[row : row + 1], ratios_of_rows[:1]) for row in range(len(values))])
    torch.testing.assert_close(alone, probabilities, atol=4 * step, rtol=0)


def test_ten_thousand_classes() -> None:
    values = torch.randn(4, 10_000, generator=torch.Generator().manual_seed(0))
    probabilities = robust_probabilities(values, torch.full((4,), 0.5))
    torch.testing.assert_close(probabilities.sum(-1), torch.ones(4))
    classes = torch.randperm(10_000, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(
        robust_probabilities(values[:, classes], torch.full((4,), 0.5)), probabilities[:, classes]
    )
