"""What a finished run says of data, in a file for other programs."""

from __future__ import annotations

from pathlib import Path

from shiftcal.data.specs import table_as_written
from shiftcal.data.table_encoder import TableColumns, TableEncoder, TableInputs
from shiftcal.runs import scoring
from shiftcal.runs.evaluation import predict_domain
from shiftcal.runs.folder import RunFolder
from shiftcal.runs.prediction_tables import export_predictions
from shiftcal.runs.run_data import load_domain_for
from shiftcal.training.saved_model import load_model


def predict_file(run: Path, table: TableColumns, data: Path | str, out: Path, *, download: bool = False) -> int:
    """Write the predictions of a run for data, a file or any spec; gives the number of rows.

    Large data are scored in parts, and what was scored before a kill is kept.

    Raises:
        CheckpointError: there is no finished run.
        DataUnavailableError, InvalidInputError: the data are not there, or not what the model takes.
        OutputError: the file can't be written.
    """
    checkpoint = RunFolder(run).checkpoint
    model = load_model(checkpoint)
    gathers = out.suffix.lower() == ".npz"
    large = scoring.large_table(str(data))
    if large is not None and isinstance(model.encoder, TableEncoder) and not gathers:
        parts = scoring.table_parts(large, str(data), model.encoder, table)
        return scoring.score_in_parts(model, parts, scoring.identity_of(checkpoint, large), out)
    domain = load_domain_for(model, str(data), table=table, download=download)
    is_table = isinstance(domain.inputs, TableInputs)
    if len(domain) > scoring.ROWS_OF_A_PART and not is_table and not gathers:
        parts, identity = scoring.domain_parts(domain), scoring.identity_of(checkpoint, domain)
        return scoring.score_in_parts(model, parts, identity, out)
    predictions = predict_domain(model, domain)
    export_predictions(predictions, out, table_as_written(str(data)) if is_table else None)
    return len(predictions)
