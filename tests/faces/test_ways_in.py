"""Every way in that docs/ways_in.md lists, run: kinds of models x kinds of data.

`python tests/faces/test_ways_in.py` prints the table of that page.
"""

import json
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import Request, urlopen

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from shiftcal import ShiftCalibrator

pytestmark = pytest.mark.usefixtures("quick_estimate")

PAGE = Path(__file__).parents[2] / "docs" / "ways_in.md"
GENERATOR = np.random.default_rng(0)
Y = np.arange(30) % 2
X = (2 * Y[:, None] + GENERATOR.normal(size=(30, 4))).astype(np.float32)
TARGET = X[:9] + 0.5
NAMES = list("abcd")
TEXTS = [f"{('bad', 'good')[label]} {noun}" for label, noun in zip(Y, ["film", "book", "play"] * 10, strict=True)]
TABLE = pd.DataFrame(X, columns=NAMES).assign(kind=np.where(np.arange(30) % 3, "new", "used"))
TABLE.loc[::7, "a"] = np.nan


class Given(NamedTuple):
    """Source inputs, their labels unless they bring them, and target inputs."""

    source: Any
    labels: Any
    target: Any


def frame(rows: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=NAMES)


def with_package(name: str, make: Callable[[Any], Any]) -> Any:
    return make(pytest.importorskip(name))


def memory_map(rows: np.ndarray, folder: Path) -> np.ndarray:
    path = folder / f"{len(rows)}.npy"
    np.save(path, rows)
    return np.asanyarray(np.load(path, mmap_mode="r"))


def batches(rows: Any, labels: np.ndarray | None = None) -> Iterator[Any]:
    for start in range(0, len(rows), 8):
        own = slice(start, start + 8)
        yield rows[own] if labels is None else (rows[own], labels[own])


def tensors(rows: np.ndarray, labels: np.ndarray | None = None) -> TensorDataset:
    parts = [rows] if labels is None else [rows, labels]
    return TensorDataset(*(torch.from_numpy(part) for part in parts))


def of_hugging_face(columns: dict[str, Any]) -> Any:
    return with_package("datasets", lambda datasets: datasets.Dataset.from_dict(columns))


def columns_of(rows: np.ndarray) -> dict[str, np.ndarray]:
    return dict(zip(NAMES, rows.T, strict=True))


ARRAYS: dict[str, Callable[[Path], Given]] = {
    "array": lambda _: Given(X, Y, TARGET),
    "memory map": lambda folder: Given(memory_map(X, folder), Y, memory_map(TARGET, folder)),
    "rows in lists": lambda _: Given(X.tolist(), Y.tolist(), TARGET.tolist()),
    "sparse matrix": lambda _: Given(sparse.csr_matrix(X), Y, sparse.csr_matrix(TARGET)),
    "generator of batches": lambda _: Given(batches(X, Y), None, batches(TARGET)),
}
TENSORS: dict[str, Callable[[Path], Given]] = {
    "tensor": lambda _: Given(torch.from_numpy(X), torch.from_numpy(Y), torch.from_numpy(TARGET)),
    "torch data set": lambda _: Given(tensors(X, Y), None, tensors(TARGET)),
    "loader": lambda _: Given(DataLoader(tensors(X, Y), 8), None, DataLoader(tensors(TARGET), 8)),
}
TABLES: dict[str, Callable[[Path], Given]] = {
    "pandas frame": lambda _: Given(frame(X), pd.Series(Y), frame(TARGET)),
    "polars frame": lambda _: with_package(
        "polars", lambda polars: Given(polars.DataFrame(frame(X)), Y, polars.DataFrame(frame(TARGET)))
    ),
    "Arrow table": lambda _: with_package(
        "pyarrow", lambda arrow: Given(arrow.table(columns_of(X)), Y, arrow.table(columns_of(TARGET)))
    ),
    "mapping of columns": lambda _: Given(columns_of(X), Y, columns_of(TARGET)),
    "Hugging Face data set": lambda _: Given(
        of_hugging_face({**columns_of(X), "label": Y}), None, of_hugging_face(columns_of(TARGET))
    ),
}
MIXED_TABLES: dict[str, Callable[[Path], Given]] = {
    "frame with text and holes": lambda _: Given(TABLE, pd.DataFrame({"y": Y}), TABLE[:9])
}
TEXT_DATA: dict[str, Callable[[Path], Given]] = {
    "list of texts": lambda _: Given(TEXTS, Y, TEXTS[:9]),
    "series of texts": lambda _: Given(pd.Series(TEXTS), pd.Series(Y), pd.Series(TEXTS[:9])),
    "array of texts": lambda _: Given(np.array(TEXTS, dtype=object), Y, np.array(TEXTS[:9], dtype=object)),
    "data set of texts": lambda _: Given(
        of_hugging_face({"text": TEXTS, "label": Y}), None, of_hugging_face({"text": TEXTS[:9]})
    ),
}
IDS = 3 * Y[:, None] + GENERATOR.integers(0, 3, (30, 4))


def tokens(num_rows: int) -> dict[str, np.ndarray]:
    return {"input_ids": IDS[:num_rows], "attention_mask": np.ones_like(IDS[:num_rows])}


TOKEN_DATA: dict[str, Callable[[Path], Given]] = {
    "mapping of tokens": lambda _: Given(tokens(30), Y, tokens(9)),
    "data set of tokens": lambda _: Given(
        of_hugging_face({**tokens(30), "labels": Y}), None, of_hugging_face(tokens(9))
    ),
}
ALL_DATA = TOKEN_DATA | ARRAYS | TENSORS | TABLES | MIXED_TABLES | TEXT_DATA


class Network(nn.Module):
    """Two layers that give logits as asked: several, one, or inside of a mapping."""

    def __init__(self, num_outputs: int = 2, *, in_mapping: bool = False) -> None:
        super().__init__()
        self.body, self.head, self.in_mapping = nn.Linear(4, 3), nn.Linear(3, num_outputs), in_mapping

    def forward(self, inputs: torch.Tensor) -> Any:
        logits = self.head(torch.relu(self.body(inputs)))
        return {"logits": logits} if self.in_mapping else logits


class TextNetwork(nn.Module):
    """As models of transformers: named columns of tokens in, a mapping with logits out."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Embedding(8, 3), nn.Linear(3, 2)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"logits": self.head((self.body(input_ids) * attention_mask.unsqueeze(-1)).mean(dim=1))}


def exported() -> Any:
    rows = {0: torch.export.Dim("rows")}
    return torch.export.export(Network(), (torch.from_numpy(X),), dynamic_shapes=(rows,))


def of_skorch() -> Any:
    def make(skorch: Any) -> Any:
        net = skorch.NeuralNetClassifier(
            Network, criterion=nn.CrossEntropyLoss, max_epochs=1, verbose=0, train_split=None
        )
        return net.fit(X, Y)

    return with_package("skorch", make)


def of_onnx() -> Any:
    runtime, export = pytest.importorskip("onnxruntime"), pytest.importorskip("skl2onnx")
    written = export.to_onnx(LogisticRegression().fit(X, Y), X[:1])
    return runtime.InferenceSession(written.SerializeToString(), providers=["CPUExecutionProvider"])


def pairs(texts: list[str]) -> list[list[dict[str, Any]]]:
    """As a pipeline of transformers with top_k=None."""
    return [
        [{"label": "1", "score": p}, {"label": "0", "score": 1 - p}]
        for p in (0.2 + 0.6 * ("good" in t) for t in texts)
    ]


LINEAR = LogisticRegression().fit(X, Y)


def answered(rows: Any, address: str) -> Any:
    request = Request(address, json.dumps(np.asarray(rows).tolist()).encode())
    with urlopen(request) as answer:
        return json.load(answer)


class Endpoint(BaseHTTPRequestHandler):
    """A model behind HTTP."""

    def do_POST(self) -> None:
        rows = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(LINEAR.predict_proba(rows).tolist()).encode())

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Endpoint) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def on_table(model: Any) -> Callable[[str], Any]:
    return lambda _: model.fit(frame(X), Y)


def on_array(model: Any) -> Callable[[str], Any]:
    return lambda _: model.fit(X, Y)


def boosted(package: str, name: str, **settings: Any) -> Callable[[str], Any]:
    return lambda _: with_package(package, lambda module: getattr(module, name)(**settings).fit(frame(X), Y))


MIXED = make_pipeline(
    make_column_transformer((make_pipeline(SimpleImputer(), StandardScaler()), NAMES), (OneHotEncoder(), ["kind"])),
    LogisticRegression(),
)
LIST, GENERATED = "rows in lists", "generator of batches"
WAYS: dict[str, tuple[Callable[[str], Any], tuple[str, ...]]] = {
    "classifier of scikit-learn": (on_array(LogisticRegression()), tuple(ARRAYS)),
    "the same, fitted to a frame": (on_table(RandomForestClassifier(5)), tuple(TABLES)),
    "without probabilities (LinearSVC)": (on_array(LinearSVC()), ("array", "sparse matrix", GENERATED)),
    "trees that take holes (HistGradientBoosting)": (
        lambda _: HistGradientBoostingClassifier(max_iter=2).fit(TABLE[NAMES], Y),
        ("pandas frame", "Arrow table"),
    ),
    "pipeline with preprocessing": (lambda _: MIXED.fit(TABLE, Y), ("frame with text and holes",)),
    "pipeline of texts": (
        lambda _: make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(TEXTS, Y),
        tuple(TEXT_DATA),
    ),
    "pipeline of 2^20 hashed columns": (
        lambda _: make_pipeline(HashingVectorizer(), LogisticRegression()).fit(TEXTS, Y),
        ("list of texts",),
    ),
    "search for options (GridSearchCV)": (
        lambda _: GridSearchCV(LogisticRegression(), {"C": [1.0]}, cv=2).fit(X, Y),
        ("array", GENERATED),
    ),
    "FrozenEstimator": (lambda _: FrozenEstimator(LINEAR), ("array", LIST)),
    "XGBoost": (boosted("xgboost", "XGBClassifier", n_estimators=2), ("pandas frame", "Arrow table")),
    "LightGBM": (boosted("lightgbm", "LGBMClassifier", n_estimators=2, verbose=-1), ("pandas frame", "Arrow table")),
    "CatBoost": (
        boosted("catboost", "CatBoostClassifier", iterations=2, verbose=0, allow_writing_files=False),
        ("pandas frame", "Arrow table"),
    ),
    "skorch": (lambda _: of_skorch(), ("array", GENERATED)),
    "nn.Module": (lambda _: Network(), ("array", "memory map", LIST, GENERATED, *TENSORS)),
    "nn.Module with one logit": (lambda _: Network(1), ("tensor", "loader")),
    "nn.Module with outputs in a mapping": (lambda _: Network(in_mapping=True), ("torch data set", "loader")),
    "compiled nn.Module": (lambda _: torch.compile(Network()), ("tensor",)),
    "exported nn.Module": (lambda _: exported(), ("tensor",)),
    "network of tokens (as of transformers)": (lambda _: TextNetwork(), tuple(TOKEN_DATA)),
    "ONNX Runtime session": (lambda _: of_onnx(), ("array", "memory map", GENERATED)),
    "function": (lambda _: LINEAR.predict_proba, ("array", GENERATED)),
    "HTTP endpoint": (lambda address: partial(answered, address=address), ("array", LIST)),
    "labels with scores (transformers)": (lambda _: pairs, ("list of texts", "data set of texts")),
}
CASES = [(model, data) for model, (_, kinds) in WAYS.items() for data in kinds]


@pytest.fixture(autouse=True)
def _seeded() -> None:
    # Of other seeds, networks without training may give nothing but numbers between 0 and 1, which is refused.
    torch.manual_seed(0)


@pytest.mark.filterwarnings("default")  # of packages that are not ours
@pytest.mark.parametrize(("model", "data"), CASES, ids=[f"{model} - {data}" for model, data in CASES])
def test_way_in(model: str, data: str, address: str, tmp_path: Path) -> None:
    make, _ = WAYS[model]
    given = ALL_DATA[data](tmp_path)
    calibrated = ShiftCalibrator(make(address)).fit(given.source, given.labels, given.target)
    found = calibrated.predict_proba(ALL_DATA[data](tmp_path).target)
    assert found.shape == (9, 2)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert calibrated.verdict_


def table() -> str:
    lines = ["| model | data |", "|---|---|"]
    lines += [f"| {model} | {', '.join(kinds)} |" for model, (_, kinds) in WAYS.items()]
    return "\n".join(lines)


def test_the_page_lists_what_was_run() -> None:
    assert len(CASES) >= 40
    page = PAGE.read_text(encoding="utf-8")
    assert table() in page, f"put this into {PAGE.name}:\n{table()}"
    assert f"{len(CASES)} ways" in page


if __name__ == "__main__":
    print(len(CASES))
    print(table())
