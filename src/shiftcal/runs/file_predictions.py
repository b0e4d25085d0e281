"""What a finished run says of data, in a file for other programs."""

from __future__ import annotations

from pathlib import Path

from shiftcal.data.specs import table_as_written
from shiftcal.data.table_encoder import TableColumns, TableInputs
from shiftcal.runs.evaluation import predict_domain
from shiftcal.runs.folder import RunFolder
from shiftcal.runs.prediction_tables import export_predictions
from shiftcal.runs.run_data import load_domain_for
from shiftcal.training.fitted_model import load_model


def predict_file(run: Path, table: TableColumns, data: Path | str, out: Path, *, download: bool = False) -> int:
    """Write the predictions of a run for data, a file or any spec; gives the number of rows.

    Raises:
        CheckpointError: there is no finished run.
        DataUnavailableError, InvalidInputError: the data are not there, or not what the model takes.
        OutputError: the file can't be written.
    """
    model = load_model(RunFolder(run).checkpoint)
    domain = load_domain_for(model, str(data), table=table, download=download)
    predictions = predict_domain(model, domain)
    beside = table_as_written(str(data)) if isinstance(domain.inputs, TableInputs) else None
    export_predictions(predictions, out, beside)
    return len(predictions)
