"""What a finished run has to say: what to expect on the target first, in words; numbers for those who ask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shiftcal.runs.folder import RunFolder
from shiftcal.target.findings import TargetFindings


@dataclass(frozen=True)
class RunSummary:
    """Of a finished run."""

    folder: RunFolder
    findings: TargetFindings
    metrics: dict[str, dict[str, float | None]]
    """By domain and name."""
    columns_used: str | None
    """What became of the columns of a table."""
    has_test: bool
    """Whether other data than the target was evaluated on."""

    def words(self) -> list[str]:
        """The expected accuracy and the kind of shift, then what else is known, a line each."""
        found = self.findings
        first = (found.diagnosis, found.adaptation)
        lines = [part.verdict() for part in first if part is not None]
        if found.diagnosis is None:
            lines.append("No target was given: nothing is said of data unlike the source.")
        return [*lines, *filter(None, (self._measured(), self.columns_used))]

    def _measured(self) -> str:
        """What labels say: of held-out rows and, where it has labels, of the target."""
        named = {
            "source": "held-out source rows" if self.metrics["source"].get("held_out") else "rows it was trained on",
            "target": None if self.findings.diagnosis is None else "the test data" if self.has_test else "the target",
        }
        parts = []
        for domain, name in named.items():
            right, says = (self.metrics[domain].get(metric) for metric in ("accuracy", "mean_confidence"))
            if name is not None and right is not None and says is not None:
                parts.append(f"{right:.1%} right on {name} (its probabilities say {says:.1%})")
        return f"Measured by labels: {'; '.join(parts)}." if parts else ""

    def as_plain(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        found = self.findings.diagnosis
        low, high = (None, None) if found is None or found.interval is None else found.interval
        return {
            "verdict": " ".join(self.findings.verdicts()) or None,
            "expected_accuracy": None if found is None else {"value": found.accuracy, "low": low, "high": high},
            "kind_of_shift": None if found is None else found.kind_of_shift(),
            "shifted_share": None if found is None else found.shifted_share,
            "metrics": self.metrics,
            "columns_used": self.columns_used,
            "run": str(self.folder.path),
            "report": str(self.folder.report),
        }


def summarize_run(folder: RunFolder) -> RunSummary:
    """From the files of a finished run."""
    return RunSummary(
        folder,
        folder.read_findings(),
        folder.read_metrics(),
        columns_used=folder.read_card().get("columns_used"),
        has_test=folder.read_config().get("test") is not None,
    )
