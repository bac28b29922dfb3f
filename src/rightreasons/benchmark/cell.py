"""A cell: one run of a suite, the address of its row and folder, and how a worker runs it.

The driver of a sweep plans, claims cells and alone writes rows. It sends a job to a worker: a
configuration, the hash of its data and the version of the code. The worker loads the data by their
path, compares both, trains in the folder of the run and sends the results back. A worker that does
not see the driver's folder trains in a folder of its own and sends its files along.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, asdict, dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from rightreasons.benchmark.suite import MACHINE_FIELDS, Budget, Method, Overrides, Suite, Variant
from rightreasons.core.files import writable_folder
from rightreasons.datasets import Splits
from rightreasons.errors import NonFiniteLossError, RightReasonsError
from rightreasons.run.config import Config
from rightreasons.run.run import load_run, train_run
from rightreasons.run.trials import run_trial
from rightreasons.strategies.strategy import resume_files
from rightreasons.training.distributed import hold

__all__ = [
    "Cell",
    "Job",
    "Outcome",
    "config_key",
    "data_key",
    "describe_code",
    "describe_overrides",
    "make_cell",
    "make_code_probe",
    "merge_overrides",
    "read_files",
    "row_address",
    "run_job",
    "say_other_code",
    "train_cell",
    "write_files",
]

KEY_LENGTH = 16
NAME_FIELDS = ("data", "recipe", "model", "strategy")
FORMER_DEFAULTS = {"batch_size": 250, "lr": 2e-3, "epochs": 10, "model": "mlp"}
"""Former defaults of `Config`: hashes still use them, so that rows kept before stay valid."""

UNSTATED: Overrides = {"model": "mlp", "epochs": 10, "batch_size": 128}
"""What a run has where its suite does not say it. In a run of its own the data decide."""

PATIENCE_SECONDS = 60.0
"""How long a worker waits for the folder of a run which a worker of a killed driver still holds."""


@dataclass(frozen=True)
class Cell:
    """One run of a suite, with a name for progress messages."""

    name: str
    config: Config


def make_cell(
    suite: Suite, budget: Budget, variant: Variant, method: Method, candidate: Overrides, seed: int
) -> Cell:
    """Merge all overrides into the configuration of one run; the last layer wins.

    A layer that names another model drops the settings of the model before.
    """
    layers = (
        UNSTATED,
        suite.base,
        variant.overrides,
        budget.overrides,
        budget.variants.get(variant.name, {}),
        method.overrides,
        candidate,
    )
    merged = merge_overrides(*layers[:1])
    for layer in layers[1:]:
        if layer.get("model", merged["model"]) != merged["model"]:
            merged.pop("model_settings", None)  # they belong to the model that is replaced
        merged = merge_overrides(merged, layer)
    plain = json.loads(json.dumps(merged))  # tuples become lists, as in config.yaml
    words = [variant.name, method.name, describe_overrides(candidate), f"seed {seed}"]
    return Cell(
        name=" · ".join(word for word in words if word),
        config=Config(**plain, seed=seed),
    )


def merge_overrides(*layers: Overrides) -> dict[str, Any]:
    """Merge dictionaries into one; dictionaries inside are merged as well.

    Example:
        >>> merge_overrides({"lr": 0.1, "settings": {"weight": 1}}, {"settings": {"norm": "l2"}})
        {'lr': 0.1, 'settings': {'weight': 1, 'norm': 'l2'}}
    """
    result: dict[str, Any] = {}
    for layer in layers:
        for name, value in layer.items():
            inner = [one for one in (result.get(name), value) if isinstance(one, Mapping)]
            result[name] = merge_overrides(*inner) if len(inner) == 2 else value
    return result


def describe_overrides(overrides: Overrides) -> str:
    """Describe overrides for readers.

    Example:
        >>> describe_overrides({"settings": {"weight": 30.0}, "lr": 0.002})
        'weight 30, lr 0.002'
    """
    words = []
    for name, value in overrides.items():
        if isinstance(value, Mapping):
            words.append(describe_overrides(value))
        else:
            words.append(f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}")
    return ", ".join(word for word in words if word)


def config_key(config: Config) -> str:
    """Hash what a run does.

    Fields that say where it runs do not count, nor do fields with their default value. So old
    rows keep their hash when `Config` gets a new field.
    """
    kept = {}
    for entry in fields(Config):
        value = getattr(config, entry.name)
        default = entry.default if entry.default_factory is MISSING else entry.default_factory()
        default = FORMER_DEFAULTS.get(entry.name, default)
        if entry.name not in MACHINE_FIELDS and value != default:
            kept[entry.name] = value.replace("-", "_") if entry.name in NAME_FIELDS else value
    return _hash(kept)


def data_key(config: Config | Mapping[str, Any]) -> str:
    """Hash the data settings of a run; runs with the same key can share their data."""
    values = asdict(config) if isinstance(config, Config) else config
    settings = {"seed": values["seed"], **values["data_settings"]}
    masks = {"masks": values["masks"]} if values.get("masks") else {}  # older rows have none
    return _hash({"data": values["data"].replace("-", "_"), "settings": settings, **masks})


def row_address(config: Config, data_sha256: str) -> str:
    """Address of a run's row and folder: the hashes of its configuration and its data."""
    return f"{config_key(config)}-{data_sha256[:KEY_LENGTH]}"


def _hash(value: object) -> str:
    text = json.dumps(value, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:KEY_LENGTH]


@dataclass(frozen=True, kw_only=True)
class Job:
    """A cell on its way to a worker.

    Args:
        address: Address of the cell.
        config: Configuration of the run, with whole paths.
        data_sha256: Hash of the driver's data.
        folder: Folder of the run in the driver's store.
        marker: File in the driver's store; a worker that sees it shares the folder.
    """

    address: str
    config: Config
    data_sha256: str
    folder: Path
    marker: Path

    def to_message(self, *, threads: int) -> dict[str, Any]:
        """What is sent to a worker that runs it with so many threads."""
        places = {"folder": str(self.folder), "marker": str(self.marker)}
        return {**asdict(self), **places, "threads": threads, "code": describe_code()}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of a job; one of the first three says why there are no results.

    Args:
        refused: Why nothing more should be sent: other code, or data that cannot be loaded.
        other_data: Hash of the worker's data, if it is not the driver's.
        error: What went wrong in this cell.
        failure: A loss that became infinite, which is a result.
        results: Content of ``results.json``.
        files: Files of the run, if the worker does not share the driver's folder.
        where: Machine and process of the worker.
    """

    refused: str = ""
    other_data: str = ""
    error: str = ""
    failure: str = ""
    results: dict[str, Any] = field(default_factory=dict)
    files: dict[str, bytes] | None = None
    where: str = ""


def train_cell(config: Config, folder: Path, data: Splits) -> tuple[dict[str, Any], str]:
    """Train and measure a cell, or go on with it; gives results, and why it failed if it did."""
    try:
        train_run(config, folder, resume=True, data=data, progress=False)
    except NonFiniteLossError as error:
        return {}, str(error)
    return load_run(folder).results, ""  # as written: a number that is not finite is null


def run_job(message: Mapping[str, Any]) -> dict[str, Any]:
    """Run a cell, or a trial of a repair, where it was sent; what goes wrong is told, not raised.

    Both messages are plain dictionaries, which other versions of this code can read too.
    """
    where = f"{socket.gethostname()}, process {os.getpid()}"
    if describe_code() != message["code"]:
        told = say_other_code(where, describe_code(), message["code"])
        return asdict(Outcome(refused=told, where=where))
    if "trial" in message:
        return asdict(_run_trial(message["trial"], where))
    torch.set_num_threads(message["threads"])
    config = Config(**message["config"])
    try:
        data, digest = _load(config, message["data_sha256"])
    except (RightReasonsError, OSError) as error:
        told = f"Expected the driver's data on every node, but on {where}: {error}"
        return asdict(Outcome(refused=told, where=where))
    if digest != message["data_sha256"]:
        return asdict(Outcome(other_data=digest, where=where))
    try:
        with _run_folder(Path(message["folder"]), Path(message["marker"])) as (folder, is_shared):
            results, failure = train_cell(config, folder, data)
            files = None if is_shared else read_files(folder)
    except Exception as error:  # one bad cell must not end the others
        place = traceback.extract_tb(error.__traceback__)[-1]
        told = f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"
        return asdict(Outcome(error=told, where=where))
    return asdict(Outcome(results=results, failure=failure, files=files, where=where))


def _run_trial(message: Mapping[str, Any], where: str) -> Outcome:
    try:
        return Outcome(results=run_trial(message), where=where)
    except RightReasonsError as error:  # of the machine: those of the trial are its result
        return Outcome(refused=str(error), where=where)
    except Exception as error:  # one bad trial must not end the others
        return Outcome(error=f"{type(error).__name__}: {error}", where=where)


def make_code_probe() -> Callable[[], str]:
    """Make a function that describes the code of the process it runs in.

    Ray sends it by value, since it is no member of a module. So it also runs on a node that has
    another version of this library, or none.
    """

    def probe() -> str:
        import hashlib
        from importlib import metadata, util
        from pathlib import Path

        found = util.find_spec("rightreasons")
        if found is None or found.origin is None:
            return "no rightreasons"
        folder, sha = Path(found.origin).parent, hashlib.sha256()
        for path in sorted(folder.rglob("*.py")):
            sha.update(str(path.relative_to(folder)).encode() + path.read_bytes())
        torch_version = metadata.version("torch").split("+")[0]  # builds for other devices may mix
        version = f"{metadata.version('rightreasons')} ({sha.hexdigest()[:12]})"
        return f"rightreasons {version}, torch {torch_version}"

    return probe


@lru_cache(maxsize=1)
def describe_code() -> str:
    """The version of the code of this process, with a hash of its files."""
    return make_code_probe()()


def say_other_code(where: str, code: str, expected: str) -> str:
    """The error for a node that has other code than the driver."""
    return (
        f"Expected the driver's code on every node, {expected}, but {where} has {code}. Install "
        "the same version there and start again: finished cells are kept."
    )


_loaded: dict[str, tuple[Splits, str]] = {}
"""Data of the cell before, by their key; most cells use the same."""


def _load(config: Config, expected: str) -> tuple[Splits, str]:
    key = data_key(config)
    if key not in _loaded or _loaded[key][1] != expected:
        _loaded.clear()  # frees memory before the new data are loaded
        data = config.load_data()
        _loaded[key] = data, data.digest()
    return _loaded[key]


@contextmanager
def _run_folder(folder: Path, marker: Path) -> Iterator[tuple[Path, bool]]:
    """The folder to train in, and whether it is that of the driver's store."""
    if not marker.exists():
        with tempfile.TemporaryDirectory(prefix="rightreasons-") as own:
            yield Path(own) / folder.name, False
        return
    writable_folder(folder)
    with hold(folder, patience=PATIENCE_SECONDS):
        yield folder, True


def read_files(folder: Path) -> dict[str, bytes]:
    """The files of a run by name, without locks and what only an unfinished run needs."""
    unneeded = resume_files(folder)
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path not in unneeded and not path.name.startswith(".")
    }


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write the files of a run that was trained elsewhere; the folder appears with all of them."""
    writable_folder(folder.parent)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".") as place:
        whole = Path(place) / "run"
        whole.mkdir()
        for name, content in files.items():
            path = whole / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        shutil.rmtree(folder, ignore_errors=True)
        whole.rename(folder)
