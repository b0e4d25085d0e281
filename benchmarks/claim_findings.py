"""What the records say of each claim of the paper: a function for each."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import NamedTuple

import torch

from shiftcal.functional.predictive import robust_probabilities
from shiftcal.runs.comparison import parse_contenders

RECORDS = Path(__file__).parent
HOLDS, FAILS, UNTESTABLE, NOT_RUN = "holds here", "does not hold here", "can't be tested here", "not run yet"

Rows = list[dict[str, str]]


class Finding(NamedTuple):
    """What the records say of a claim."""

    verdict: str
    figures: str


class NotRunError(Exception):
    """There is no record of a reproduction."""


def rows_of(*names: str) -> Rows:
    """Rows of records, those that there are."""
    paths = [path for path in (RECORDS / name for name in names) if path.exists()]
    return [row for path in paths for row in csv.DictReader(path.read_text(encoding="utf-8").splitlines())]


def reproduced(*names: str) -> Rows:
    """Rows of reproductions of the same kind, of those that there are.

    Raises:
        NotRunError: there is no record of any.
    """
    rows = rows_of(*(f"reproduction/{name}/{name}.csv" for name in names))
    if not rows:
        raise NotRunError(names[0])
    return rows


def reproduced_with(name: str, methods: Sequence[str]) -> Rows:
    """Rows of a reproduction on the tasks and seeds that all of these methods have.

    Raises:
        NotRunError: there is no record of all of them.
    """
    rows = shared(reproduced(name), methods)
    if not rows:
        raise NotRunError(name)
    return rows


def value(rows: Rows, column: str, **wanted: str) -> float:
    """Mean over tasks of the mean over their other rows, of the rows with the wanted values."""
    own = [row for row in rows if row.get(column) and all(row[name] == text for name, text in wanted.items())]
    tasks = {row.get("task", "") for row in own}
    return mean(mean(float(row[column]) for row in own if row.get("task", "") == task) for task in tasks)


def shared(rows: Rows, methods: Sequence[str]) -> Rows:
    """The rows of these methods on the tasks and seeds that all of them have."""
    cells = [{(row["task"], row["seed"]) for row in rows if row["method"] == method} for method in methods]
    kept = set.intersection(*cells)
    return [row for row in rows if row["method"] in methods and (row["task"], row["seed"]) in kept]


def listed(rows: Rows, columns: Sequence[str], methods: Sequence[str]) -> str:
    """`method .123 / .456` for each method, and on how much."""
    numbers = (" / ".join(f"{value(rows, column, method=method):.3f}" for column in columns) for method in methods)
    means = ", ".join(f"{method} {text}" for method, text in zip(methods, numbers, strict=True))
    num_tasks, num_runs = len({row["task"] for row in rows}), len({(row["task"], row["seed"]) for row in rows})
    return f"{means} ({num_tasks} tasks, {num_runs} runs of each)"


def verdict(is_true: bool) -> str:
    """In words."""
    return HOLDS if is_true else FAILS


def calibration(form: str) -> Finding:
    """Figure 2, of a form of DRL."""
    methods = (form, "source-only", "source-only+temperature", "vada")
    rows, columns = reproduced_with("calibration", methods), ("brier", "ece", "accuracy")
    own, *rivals = (value(rows, columns[0], method=method) for method in methods)
    return Finding(verdict(own < min(rivals)), f"Brier / ECE / accuracy: {listed(rows, columns, methods)}")


def caution() -> Finding:
    """The limits of the form, on two Gaussians."""
    rows = [row for row in reproduced("gaussian") if float(row["true_ratio"]) < 0.1]
    methods = ("drl", "source-only", "rba")
    sure = {
        method: mean(abs(2 * float(row["probability"]) - 1) for row in rows if row["method"] == method)
        for method in methods
    }
    text = ", ".join(f"{method} {number:.3f}" for method, number in sure.items())
    return Finding(
        verdict(sure["drl"] < sure["source-only"]), f"2 confidence - 1 where the true ratio is below 0.1: {text}"
    )


def jointly() -> Finding:
    """DRL against RBA."""
    rows, columns = reproduced_with("calibration", ("drl", "rba")), ("brier", "ece")
    is_true = value(rows, columns[0], method="drl") < value(rows, columns[0], method="rba")
    return Finding(verdict(is_true), f"Brier / ECE: {listed(rows, columns, ('drl', 'rba'))}")


def human_agreement() -> Finding:
    """Table 2, with each backbone."""
    rows = reproduced("human-agreement-ece")
    lows = sorted({row["low"] for row in rows}, key=float)
    ahead, texts = 0, []
    for backbone, own_rows in by_backbone(rows).items():
        errors = {
            method: [value(own_rows, "ece", method=method, low=low) for low in lows]
            for method in ("drl", "source-only", "source-only+temperature")
        }
        own, *rivals = errors.values()
        ahead += sum(number < min(others) for number, *others in zip(own, *rivals, strict=True))
        listed_errors = "; ".join(
            f"{method} {' '.join(f'{number:.3f}' for number in numbers)}" for method, numbers in errors.items()
        )
        texts.append(f"{backbone}: {listed_errors}")
    of_all = len(lows) * len(texts)
    text = f"ECE by bin from {float(lows[0]):g} on, {'. '.join(texts)}. Ahead in {ahead} of {of_all}"
    return Finding(verdict(ahead == of_all), text)


def ratio_and_humans() -> Finding:
    """Figure 4, with each backbone."""
    rows, texts = reproduced("ratio-vs-human"), []
    for backbone, own_rows in by_backbone(rows).items():
        own = [row for row in own_rows if row["method"] == "drl"]
        found, confidence = (mean(float(row[column]) for row in own) for column in ("correlation", "of_confidence"))
        texts.append(
            f"{backbone}: rank correlation {found:+.3f} in the mean over {len(own)} runs, {_above(own)} with an "
            f"interval above 0; of the confidence {confidence:+.3f}"
        )
    of_drl = [row for row in rows if row["method"].startswith("drl")]
    return Finding(verdict(_above(of_drl) > len(of_drl) / 2), ". ".join(texts))


def _above(rows: Rows) -> int:
    return sum(float(row["low"]) > 0 for row in rows)


def by_backbone(rows: Rows) -> dict[str, Rows]:
    """Rows by the backbone that their contender has of its own, without it in the name of the method."""
    found: dict[str, Rows] = {}
    for row in rows:
        (contender,) = parse_contenders(row["method"])
        own = next((text.partition("=")[2] for text in contender.of_network if text.startswith("backbone=")), None)
        method = replace(contender, settings=contender.options).name
        found.setdefault(own or "small network", []).append({**row, "method": method})
    return found


def adaptation() -> Finding:
    """Table 3: DRST against what it builds on."""
    rows, methods = reproduced("adaptation"), ("drst+target-scaling", "crst", "cbst", "source-only")
    own, *rivals = (value(rows, "accuracy", method=method) for method in methods)
    return Finding(verdict(own > max(rivals)), f"accuracy / Brier: {listed(rows, ('accuracy', 'brier'), methods)}")


def published_training() -> Finding:
    """DRST with its ratio in training, as published and by the authors' settings, against CBST."""
    methods = ("drst[preset=paper]", "drst[preset=authors]", "drst[preset=paper;ratio_strength=0]", "cbst")
    rows = reproduced_with("training-curves", methods)
    last = [row for row in rows if row["epoch"] == max((row["epoch"] for row in rows), key=int)]
    published, by_authors, _, rival = (value(last, "accuracy", method=method) for method in methods)
    text = f"accuracy / Brier: {listed(last, ('accuracy', 'brier_score'), methods)}"
    return Finding(verdict(max(published, by_authors) > rival), text)


def over_epochs() -> Finding:
    """Figure 5 a and b."""
    rows = reproduced("training-curves")
    own, *rivals = ("drst", "cbst", "crst")
    # In the first epoch all of them learn from the source alone.
    epochs = sorted({row["epoch"] for row in rows}, key=int)[1:]
    ahead = {
        column: sum(
            sign * value(rows, column, method=own, epoch=epoch)
            > max(sign * value(rows, column, method=method, epoch=epoch) for method in rivals)
            for epoch in epochs
        )
        for column, sign in (("accuracy", 1), ("brier_score", -1))
    }
    text = (
        f"ahead in accuracy in {ahead['accuracy']}, in Brier score in {ahead['brier_score']} of the {len(epochs)} "
        f"epochs after the first, in which none has labels of its own yet ({_extent(rows)})"
    )
    return Finding(verdict(min(ahead.values()) == len(epochs)), text)


def _extent(rows: Rows) -> str:
    tasks, seeds = ({row[column] for row in rows} for column in ("task", "seed"))
    return f"{len(tasks)} tasks, {len(seeds)} seeds"


def hard_examples() -> Finding:
    """Figure 6."""
    rows = reproduced("hard-examples")
    bins = sorted({row["bin"] for row in rows}, key=int)
    leads = {
        rival: [
            value(rows, "accuracy", method="drst", bin=number) - value(rows, "accuracy", method=rival, bin=number)
            for number in (bins[0], bins[-1])
        ]
        for rival in ("cbst", "crst")
    }
    text = ", ".join(f"over {rival} {first:+.3f} and {last:+.3f}" for rival, (first, last) in leads.items())
    is_true = all(first > last for first, last in leads.values())
    return Finding(verdict(is_true), f"lead in the least and the most source-like fifth: {text}")


def shift_gap() -> Finding:
    """Figure 5 c."""
    rows = reproduced("shift-gap")
    last = max((row["epoch"] for row in rows), key=int)
    gaps = {
        method: [value(rows, "shift_gap", method=method, epoch=epoch) for epoch in ("1", last)]
        for method in ("drst", "cbst", "source-only")
    }
    text = ", ".join(f"{method} {first:.3f} to {end:.3f}" for method, (first, end) in gaps.items())
    return Finding(
        verdict(gaps["drst"][1] < gaps["source-only"][1]), f"gap after the first and the last epoch: {text}"
    )


def few_labels() -> Finding:
    """Table 4."""
    rows = reproduced("ssl")
    methods = (
        "drssl[unlabelled_multiple=3]+target-scaling[keep_source=true]",
        "fixmatch[unlabelled_multiple=3]",
    )
    pairs = [
        task
        for task in dict.fromkeys(row["task"] for row in rows)
        if task.startswith(("cifar", "mnist@mnist:test->svhn"))
    ]
    own, rival = ([value(rows, "accuracy", method=method, task=task) for task in pairs] for method in methods)
    text = "; ".join(
        f"{task.split('@')[0]} to {task.split('->')[1].split('@')[0]} {mine:.3f} against {other:.3f}"
        for task, mine, other in zip(pairs, own, rival, strict=True)
    )
    return Finding(
        verdict(all(mine > other for mine, other in zip(own, rival, strict=True))),
        f"target accuracy: {text} (seeds: {len({row['seed'] for row in rows})})",
    )


def attention() -> Finding:
    """Appendix."""
    rows = reproduced("attention")
    covered = {method: value(rows, "covered", method=method) for method in ("drst", "cbst", "crst")}
    text = ", ".join(f"{method} {number:.3f}" for method, number in covered.items())
    return Finding(verdict(covered["drst"] == max(covered.values())), f"share of the object attended to: {text}")


def easy_and_hard() -> Finding:
    """Figure 1 b."""
    rows = reproduced("examples")
    hard, easy = (value(rows, "is_right", end=end) for end in ("hard", "easy"))
    return Finding(
        verdict(hard < easy), f"accuracy on pictures of the lowest ratio {hard:.3f}, of the highest {easy:.3f}"
    )


def theorem() -> Finding:
    """Theorem 1 against the exact maximiser, on random problems."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(1000, 3, generator=generator, dtype=torch.float64)
    ratio = torch.rand(1000, generator=generator, dtype=torch.float64) * 3 + 0.1
    labels = torch.randint(3, (1000,), generator=generator)
    off = []
    for strength in (0.001, 0.1, 0.5, 1.0):
        published, exact = (
            robust_probabilities(logits, ratio, class_regularization=strength, labels=labels, form=form)
            for form in ("paper", "exact")
        )
        off.append(f"{(published - exact).abs().max():.4f} at r = {strength:g}")
    return Finding(FAILS, f"largest error of a probability {', '.join(off)} (1,000 random problems, 3 classes)")


def no_data() -> Finding:
    """What needs data or machines that are not at hand."""
    return Finding(UNTESTABLE, "")
