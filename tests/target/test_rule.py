"""Each gate by itself, the others saturated: a constant that is changed by a fifth fails here."""

import pytest

from shiftcal.target.rule import TrustRule

RULE = TrustRule(purity_midpoint=0.4, purity_slope=10.0, novelty_slope=5.0)


@pytest.mark.parametrize(
    ("auc", "degree"), [(None, 1.0), (0.4, 0.0), (0.5, 0.0), (0.575, 0.5), (0.635, 0.9), (0.65, 1.0), (0.9, 1.0)]
)
def test_the_degree_of_a_shift_grows_with_the_domain_auc_of_outputs(auc: float | None, degree: float) -> None:
    assert RULE.shift_degree(auc) == pytest.approx(degree)


@pytest.mark.parametrize(("purity", "reliability"), [(-9, 0.0), (0.4, 0.5), (0.5, 0.7311), (0.3, 0.2689), (2, 1.0)])
def test_reliability_grows_with_the_purity_of_source_clusters(purity: float, reliability: float) -> None:
    assert RULE.cluster_reliability(purity) == pytest.approx(reliability, abs=1e-4)


@pytest.mark.parametrize(("novelty", "degree"), [(0.0, 0.0), (0.1, 0.5), (0.2, 1.0), (0.9, 1.0)])
def test_held_out_rows_say_less_of_a_target_outside_of_the_source(novelty: float, degree: float) -> None:
    assert RULE.outside_degree(novelty) == pytest.approx(degree)
