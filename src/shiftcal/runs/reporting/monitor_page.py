"""The page of a monitor: what is the matter, the time lines, each batch; one file for any browser."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from shiftcal.core.errors import InvalidInputError
from shiftcal.core.files import written_whole
from shiftcal.runs.monitor_log import ReferenceCard
from shiftcal.target.batch_status import BatchStatus


def write_monitor_page(statuses: Sequence[BatchStatus], reference: ReferenceCard, path: Path, *, title: str) -> None:
    """Write the page of all batches.

    Raises:
        InvalidInputError: there are no batches.
        OutputError: `path` can't be written.
    """
    # Drawing takes a second to import, which commands without a report should not wait for.
    from shiftcal.runs.reporting.environment import page_environment
    from shiftcal.runs.reporting.figures.drawing import as_data_uri
    from shiftcal.runs.reporting.figures.timeline import (
        accuracy_line_info,
        draw_accuracy_line,
        draw_drift,
        drift_info,
    )

    if not statuses:
        raise InvalidInputError("expected at least one batch to report on, got none")
    page = (
        page_environment()
        .get_template("monitor.html.j2")
        .render(
            title=title,
            reference=reference,
            statuses=statuses,
            latest=statuses[-1],
            alarms=[status for status in statuses if status.alarm],
            has_truth=any(status.true_accuracy is not None for status in statuses),
            accuracy_line=as_data_uri(draw_accuracy_line, accuracy_line_info(statuses, reference.accuracy)),
            drift=as_data_uri(draw_drift, drift_info(statuses)),
        )
    )
    with written_whole(path) as temporary:
        temporary.write_text(page, encoding="utf-8")
