"""What a command answers: words for people, or the same as one JSON document."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple


class Answer(NamedTuple):
    """Of a command that went well."""

    plain: Any
    """For `--json`: nested plain values, as the command's help says."""
    text: str
    """Else."""
    exit_code: int = 0

    def as_json(self) -> str:
        """One document; numbers that JSON can't write are null."""
        return json.dumps(_writable(self.plain), indent=2, ensure_ascii=False)


def _writable(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _writable(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_writable(inner) for inner in value]
    if hasattr(value, "item"):  # a number of NumPy's
        return _writable(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def metrics_text(metrics: Mapping[str, Mapping[str, float | None]]) -> str:
    """Numbers by domain and name, one in a line."""
    lines = []
    for domain, numbers in metrics.items():
        lines.append(f"{domain}:")
        for name, value in numbers.items():
            written = "-" if value is None else f"{value:.4f}" if isinstance(value, float) else str(value).lower()
            lines.append(f"  {name:<32}{written}")
    return "\n".join(lines)
