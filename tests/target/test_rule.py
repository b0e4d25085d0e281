"""Each gate by itself, the others saturated: a constant that is changed by a fifth fails here."""

import pytest

from shiftcal.target.rule import TrustRule

RULE = TrustRule(purity_midpoint=0.4, purity_slope=10.0, novelty_slope=5.0)


@pytest.mark.parametrize(("purity", "reliability"), [(-9, 0.0), (0.4, 0.5), (0.5, 0.7311), (0.3, 0.2689), (2, 1.0)])
def test_reliability_grows_with_the_purity_of_source_clusters(purity: float, reliability: float) -> None:
    assert RULE.cluster_reliability(purity) == pytest.approx(reliability, abs=1e-4)


@pytest.mark.parametrize(("purity", "forms"), [(0.39, False), (0.4, True)])
def test_where_clusters_of_the_target_lie_is_asked_if_those_of_the_source_count_half(
    purity: float, forms: bool
) -> None:
    assert RULE.forms_clusters(purity) is forms


@pytest.mark.parametrize(
    ("circumstance", "below", "above"),
    [("error", 0.155, 0.080), ("change", 0.026, 0.0), ("unclustered", 0.041, 0.0), ("deviation", 0.0, 0.072)],
)
def test_what_the_interval_reaches_below_and_above(circumstance: str, below: float, above: float) -> None:
    """As fitted; each of the circumstances alone."""
    nothing = dict.fromkeys(("error", "change", "unclustered", "deviation"), 0.0)
    assert RULE.reach(**{**nothing, circumstance: 0.1}) == pytest.approx((below, above))


@pytest.mark.parametrize(("novelty", "degree"), [(0.0, 0.0), (0.1, 0.5), (0.2, 1.0), (0.9, 1.0)])
def test_held_out_rows_say_less_of_a_target_outside_of_the_source(novelty: float, degree: float) -> None:
    assert RULE.outside_degree(novelty) == pytest.approx(degree)


@pytest.mark.parametrize(
    ("changes", "explains"),
    [
        ({}, True),
        ({"distance": 0.11, "weighted_domain_auc": 0.54}, True),
        ({"distance": 0.09}, False),
        ({"by_chance": 0.16}, False),
        ({"weighted_domain_auc": 0.56}, False),
        ({"domain_auc": 0.54}, False),
    ],
)
def test_other_frequencies_explain_a_shift_that_is_gone_with_them(changes: dict[str, float], explains: bool) -> None:
    seen = {"distance": 0.3, "by_chance": 0.02, "domain_auc": 0.7, "weighted_domain_auc": 0.51}
    assert RULE.prior_explains(**{**seen, **changes}) is explains


@pytest.mark.parametrize(
    ("auc", "share", "degree"), [(0.5, 1.0, 0.0), (0.7, 1.0, 0.4), (0.7, 0.5, 0.8), (0.55, 0.1, 0.5), (0.7, 0.3, 1.0)]
)
def test_a_shift_of_a_part_changes_more_of_that_part(auc: float, share: float, degree: float) -> None:
    assert RULE.shifted_degree(auc, share) == pytest.approx(degree)


@pytest.mark.parametrize(("degree", "changed"), [(0.0, 0.0), (0.5, 0.0), (0.6, 0.2), (1.0, 1.0)])
def test_a_drop_is_taken_to_be_larger_where_more_than_half_has_changed(degree: float, changed: float) -> None:
    assert RULE.mostly_changed(degree) == pytest.approx(changed)


@pytest.mark.parametrize(("share", "surely"), [(0.0, 0.0), (0.2, 0.0), (0.6, 0.5), (1.0, 1.0)])
def test_a_small_share_that_seems_to_have_shifted_may_be_chance(share: float, surely: float) -> None:
    assert RULE.surely_shifted(share) == pytest.approx(surely)
    assert TrustRule(least_shifted_share=1.0).surely_shifted(share) == 0
