from typing import Any

import numpy as np
import pandas as pd
import pytest

from shiftcal.core.errors import InvalidInputError, ShiftcalWarning, UnknownNameError
from shiftcal.data.domains import LabelledDomain, UnlabelledDomain
from shiftcal.data.encoders import encoder_from_plain
from shiftcal.data.table_columns import fit_column
from shiftcal.data.table_encoder import TableColumns, TableEncoder, TableInputs, table_domain

FRAME = pd.DataFrame(
    {
        "key": [f"k{number}" for number in range(40)],
        "size": np.linspace(0, 1, 40) ** 2,
        "kind": ["a", "b"] * 20,
        "note": [f"words {number}" for number in range(40)],
        "answer": ["no", "yes"] * 20,
    }
)
ROLES = TableColumns(label="answer", id="key", ignore=["note"])


@pytest.fixture
def source() -> LabelledDomain:
    domain = table_domain(FRAME, "train.csv", ROLES)
    assert isinstance(domain, LabelledDomain)
    return domain


@pytest.fixture
def encoder(source: LabelledDomain) -> TableEncoder:
    assert isinstance(source.inputs.encoder, TableEncoder)
    return source.inputs.encoder


def test_what_is_no_input_is_left_out(source: LabelledDomain, encoder: TableEncoder) -> None:
    assert encoder.names == ["size", "kind"]
    assert source.classes == ("no", "yes")
    assert source.inputs.identify(3) == "k3"
    assert source.inputs.subset(np.array([5])).identify(0) == "k5"
    assert source.inputs.subset(np.array([5])).encoder is encoder
    assert encoder_from_plain(encoder.as_plain()) == encoder
    chosen = TableEncoder.fit(FRAME, TableColumns(columns=["size", "answer"], label="answer"), "t")
    assert chosen.names == ["size"]


def test_columns_are_found_by_name(source: LabelledDomain, encoder: TableEncoder) -> None:
    target = table_domain(FRAME[["kind", "size"]], "new.csv", TableColumns(), encoder)
    assert isinstance(target, UnlabelledDomain)
    assert isinstance(source.inputs, TableInputs)
    assert isinstance(target.inputs, TableInputs)
    assert target.inputs.values.equal(source.inputs.values)
    assert target.inputs.identify(3) == "3"


def test_missing_and_further_columns(encoder: TableEncoder) -> None:
    with pytest.raises(InvalidInputError, match=r"new\.csv: columns of the source are missing: 'size'"):
        encoder.encode(FRAME.drop(columns="size"), "new.csv")
    with pytest.warns(ShiftcalWarning, match=r"new\.csv: columns that the source does not have are ignored: 'more'"):
        encoder.encode(FRAME.assign(more=1), "new.csv")


@pytest.mark.parametrize("column", ["size", "kind"])
@pytest.mark.parametrize("value", [[1, 2], {"a": 1}, b"bytes"])
def test_nested_values_are_of_another_kind(column: str, value: Any, encoder: TableEncoder) -> None:
    rows = FRAME.assign(**{column: pd.Series([value] * 40, dtype=object)})
    with pytest.raises(InvalidInputError, match=f"column '{column}' of new: expected .*got nested values"):
        encoder.encode(rows, "new")


@pytest.mark.parametrize(
    "kind", ["string", "str", "object", "boolean", "Int64", "float", "datetime64[ns]", "category"]
)
def test_columns_without_any_value(kind: str, encoder: TableEncoder) -> None:
    empty = pd.Series([None] * 40, dtype=kind)
    assert fit_column(empty.rename("c")).description() == "ignored: it has one value only"
    with pytest.warns(ShiftcalWarning, match="100% of column 'kind' .* such as a missing one"):
        features = encoder.encode(FRAME.assign(size=empty, kind=empty), "new")
    assert not features.any()  # the median, and no category


def test_labels_of_a_target(encoder: TableEncoder) -> None:
    labelled = table_domain(FRAME, "t", TableColumns(), encoder)
    assert isinstance(labelled, LabelledDomain)
    other = table_domain(FRAME.rename(columns={"answer": "truth"}), "t", TableColumns(label="truth"), encoder)
    assert isinstance(other, LabelledDomain)
    absent = FRAME.assign(answer=None)
    assert isinstance(table_domain(absent, "t", TableColumns(), encoder), UnlabelledDomain)
    with pytest.warns(ShiftcalWarning, match="1 of 40 labels are missing"):
        some = table_domain(FRAME.assign(answer=[None, *FRAME["answer"][1:]]), "t", TableColumns(), encoder)
    assert isinstance(some, UnlabelledDomain)


def test_whole_numbers_and_texts_without_blanks_are_labels_and_fractions_are_none() -> None:
    domain = table_domain(FRAME.assign(answer=[1.0, 2.0] * 20), "t", ROLES)
    assert isinstance(domain, LabelledDomain)
    assert domain.classes == (1, 2)
    texts = table_domain(FRAME.assign(answer=["no", " yes ", "no ", "yes"] * 10), "t", ROLES)
    assert isinstance(texts, LabelledDomain)
    assert texts.classes == ("no", "yes")
    with pytest.raises(InvalidInputError, match=r"expected classes in the column of labels 'size', got numbers such"):
        table_domain(FRAME, "t", TableColumns(label="size"))


@pytest.mark.parametrize("role", [{"label": "anser"}, {"id": "kye"}, {"ignore": ["nots"]}, {"columns": ["sizes"]}])
def test_columns_that_are_not_there(role: dict[str, Any]) -> None:
    with pytest.raises(UnknownNameError, match=r"column of 't'.*Did you mean"):
        table_domain(FRAME, "t", TableColumns(**role))


def test_a_source_without_a_use() -> None:
    with pytest.raises(InvalidInputError, match="no column is left"):
        table_domain(FRAME, "t", TableColumns(label="answer", columns=["answer"]))
    with pytest.raises(InvalidInputError, match=r"no column can be used as input.*'note' is ignored: text"):
        table_domain(FRAME, "t", TableColumns(columns=["note"]))
    with pytest.raises(InvalidInputError, match="1 of 40 labels in column 'answer' are missing"):
        table_domain(FRAME.assign(answer=[None, *FRAME["answer"][1:]]), "t", ROLES)


def test_a_summary_names_what_is_ignored() -> None:
    encoder = TableEncoder.fit(FRAME, TableColumns(label="answer", id="key"), "t")
    assert encoder.summary() == (
        "Columns used: 1 of numbers, 1 of categories. 'note' is ignored: text with 40 different values in 40 rows."
    )
