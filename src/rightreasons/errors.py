"""The exceptions of this library.

::

    RightReasonsError
    ├─ InvalidBatchError         a batch whose parts do not fit together         (ValueError)
    ├─ UnknownNameError          an unknown recipe, metric, model or data set    (ValueError)
    ├─ InvalidSettingError       a setting out of its range or of another type   (ValueError)
    ├─ DatasetNotFoundError      files that are not where they should be         (FileNotFoundError)
    ├─ DatasetCorruptError       files that are there and cannot be read         (ValueError)
    ├─ MissingExtraError         an optional dependency that is not installed    (ImportError)
    ├─ DoubleBackwardError       a model that cannot be differentiated twice     (RuntimeError)
    ├─ NonFiniteLossError        a loss, gradient or logit: NaN or infinite       (ArithmeticError)
    ├─ CheckpointMismatchError   a checkpoint of another model or another run    (ValueError)
    ├─ OutputError               a folder that cannot be written                 (OSError)
    ├─ RunNotFoundError          a folder that holds no finished run             (FileNotFoundError)
    ├─ UnsupportedLayerError     a layer without a rule for bounds             (NotImplementedError)
    └─ CertificateError          a proof that its own checks contradict          (ArithmeticError)

Every message says what was expected, what came and, if there is one, the remedy. The class in
brackets is a second parent, so that callers can catch Python's own exceptions.
"""

import difflib
from collections.abc import Iterable

__all__ = [
    "CertificateError",
    "CheckpointMismatchError",
    "DatasetCorruptError",
    "DatasetNotFoundError",
    "DoubleBackwardError",
    "InvalidBatchError",
    "InvalidSettingError",
    "MissingExtraError",
    "NonFiniteLossError",
    "OutputError",
    "RightReasonsError",
    "RunNotFoundError",
    "UnknownNameError",
    "UnsupportedLayerError",
]


class RightReasonsError(Exception):
    """The base class of all exceptions that this library raises on purpose."""


class InvalidBatchError(RightReasonsError, ValueError):
    """The parts of a batch do not fit together or hold impossible values."""


class InvalidSettingError(RightReasonsError, ValueError):
    """A setting is out of its range, of another type, or unknown."""


class DatasetNotFoundError(RightReasonsError, FileNotFoundError):
    """The files of a data set are not where they should be."""


class DatasetCorruptError(RightReasonsError, ValueError):
    """The files of a data set are there and cannot be read or contradict each other."""


class DoubleBackwardError(RightReasonsError, RuntimeError):
    """The model cannot be differentiated twice, which a gradient penalty needs."""


class NonFiniteLossError(RightReasonsError, ArithmeticError):
    """A loss term, its gradient, or a model's logits are NaN or infinite."""


class CheckpointMismatchError(RightReasonsError, ValueError):
    """A checkpoint belongs to another model or to a run with other settings."""


class OutputError(RightReasonsError, OSError):
    """A folder or file cannot be written."""


class RunNotFoundError(RightReasonsError, FileNotFoundError):
    """A folder does not hold a finished run."""


class CertificateError(RightReasonsError, ArithmeticError):
    """A proof and what was seen of the model contradict each other; nothing is certified."""


class UnsupportedLayerError(RightReasonsError, NotImplementedError):
    """A model holds layers that have no rule for bounds, or cannot be traced."""


class MissingExtraError(RightReasonsError, ImportError):
    """An optional dependency is not installed; the message says what to run.

    Args:
        purpose: What needs the dependency, as the start of a sentence.
        extra: The extra of ``rightreasons`` that installs it.
    """

    def __init__(self, purpose: str, extra: str) -> None:
        super().__init__(f'{purpose} needs an extra: run `pip install "rightreasons[{extra}]"`.')
        self.purpose, self.extra = purpose, extra

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return type(self), (self.purpose, self.extra)


class UnknownNameError(RightReasonsError, ValueError):
    """A name is unknown; the message offers the nearest ones.

    Args:
        kind: Kind of thing, such as ``"recipe"``.
        name: The unknown name.
        known: All known names.
        hint: What else the user may have meant, as a sentence after a space.

    Example:
        >>> print(UnknownNameError("recipe", "r33", ["erm", "r3"]))
        Expected a recipe, but got 'r33'. Did you mean 'r3'? Known: erm, r3.
    """

    def __init__(self, kind: str, name: str, known: Iterable[str], hint: str = "") -> None:
        names = sorted(known)
        near = difflib.get_close_matches(name.replace("-", "_"), names, n=3, cutoff=0.5)
        nearest = f" Did you mean {' or '.join(repr(match) for match in near)}?" if near else ""
        article = "an" if kind[0] in "aeiou" else "a"
        super().__init__(
            f"Expected {article} {kind}, but got {name!r}.{nearest}{hint} "
            f"Known: {', '.join(names)}."
        )
        self.kind, self.name, self.known, self.nearest = kind, name, names, near
        self.hint = hint

    def __reduce__(self) -> tuple[type, tuple[str, str, list[str], str]]:
        return type(self), (self.kind, self.name, self.known, self.hint)
