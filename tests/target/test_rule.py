"""Each gate by itself, the others saturated: a constant that is changed by a fifth fails here."""

import pytest

from shiftcal.target.rule import TrustRule

RULE = TrustRule()


@pytest.mark.parametrize(
    ("auc", "degree"), [(None, 1.0), (0.4, 0.0), (0.5, 0.0), (0.575, 0.5), (0.635, 0.9), (0.65, 1.0), (0.9, 1.0)]
)
def test_the_degree_of_a_shift_grows_with_the_domain_auc_of_outputs(auc: float | None, degree: float) -> None:
    assert RULE.shift_degree(auc) == pytest.approx(degree)


@pytest.mark.parametrize(
    ("purity", "belief"), [(-0.2, 0.0), (0.2, 0.0), (0.35, 0.5), (0.47, 0.9), (0.5, 1.0), (0.8, 1.0)]
)
def test_belief_grows_with_the_purity_of_source_clusters(purity: float, belief: float) -> None:
    assert RULE.cluster_reliability(purity, compactness=1.0) == pytest.approx(belief)


@pytest.mark.parametrize(("compactness", "belief"), [(0.0, 0.0), (0.2, 0.5), (0.36, 0.9), (0.4, 1.0), (0.9, 1.0)])
def test_belief_grows_with_the_compactness_of_target_clusters(compactness: float, belief: float) -> None:
    assert RULE.cluster_reliability(purity=1.0, compactness=compactness) == pytest.approx(belief)
