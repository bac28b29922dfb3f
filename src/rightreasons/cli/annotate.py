"""The command that learns masks from a few images and lists what to annotate next."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from rightreasons.annotators import (
    PseudoAnnotator,
    annotate_rest,
    draw_annotated,
    find_annotated,
    keep_annotations,
    next_to_annotate,
    with_mask_files,
)
from rightreasons.annotators.mask_files import write_masks
from rightreasons.annotators.next_image import find_unannotated, suggestion_rows, write_rows
from rightreasons.cli.options import (
    PAIR_HELP,
    AsJson,
    DataDir,
    MaskPolarity,
    SetData,
    print_result,
    read_settings,
)
from rightreasons.core.checks import check_integer, check_names, check_path
from rightreasons.core.files import writable_folder
from rightreasons.datasets import Dataset, load
from rightreasons.datasets.registry import DATASETS
from rightreasons.errors import InvalidSettingError, OutputError
from rightreasons.training.distributed import hold

__all__ = ["annotate"]


def annotate(
    data: Annotated[str, typer.Argument(help="Name of a data set, or a folder with a data.csv.")],
    next_: Annotated[
        int | None, typer.Option("--next", help="Number of images to list for annotation.")
    ] = None,
    rest: Annotated[
        bool, typer.Option("--rest", help="Predict the missing masks and write all of them.")
    ] = False,
    annotations: Annotated[
        Path | None, typer.Option(help="Folder with masks: PNG files with the names of the images.")
    ] = None,
    num_annotations: Annotated[
        int | None, typer.Option(help="Masks of each class to learn from; all if not given.")
    ] = None,
    mask_polarity: MaskPolarity = None,
    data_dir: DataDir = None,
    set_data: SetData = None,
    set: Annotated[  # noqa: A002
        list[str] | None, typer.Option(help=PAIR_HELP.format("the annotator"))
    ] = None,
    cache_dir: Annotated[
        Path | None, typer.Option(help="Folder to keep predicted masks in.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="File to write: .csv with --next, .npz with --rest.",
            parser=check_path,
            metavar="PATH",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed for the data and the annotator.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Learn masks from a few training images; list what to annotate next, or fill in the rest."""
    if (next_ is None) != rest or (rest and out is None):
        raise InvalidSettingError(
            "Expected either --next NUMBER, or --rest with --out FILE.npz. Give one of the two."
        )
    if next_ is not None:
        check_integer("--next", next_)
    if out is not None:
        _refuse_other_file(out, ".npz" if rest else ".csv")
    if cache_dir is not None:
        writable_folder(cache_dir)
    if annotations is not None and num_annotations is not None:
        raise InvalidSettingError(
            "Expected --annotations or --num-annotations, but got both. Leave one of them out."
        )
    annotator = PseudoAnnotator(**{"seed": seed, **_annotator_settings(set)})
    if annotations is not None and mask_polarity is None:
        raise InvalidSettingError(
            "Expected --mask-polarity with --annotations: `irrelevant` if white is what the "
            "model must not look at, `relevant` if white is what it should look at."
        )
    train = _training_data(
        data,
        data_dir,
        mask_polarity,
        own_masks=annotations is None,
        settings=read_settings(set_data),
        seed=seed,
    )
    if annotations is not None and mask_polarity is not None:
        train = with_mask_files(train, annotations, polarity=mask_polarity)
    elif num_annotations is not None:
        places = draw_annotated(train.labels, find_annotated(train), num_annotations, seed=seed)
        train = keep_annotations(train, places)
    if next_ is not None:
        find_unannotated(train)  # before time is spent on training
    with hold(out):
        annotator.fit(train, progress=False if as_json else None)
        if rest:
            write_masks(str(out), annotate_rest(train, annotator=annotator, cache_dir=cache_dir))
            typer.echo(json.dumps({"masks": str(out)}) if as_json else f"Wrote {out}.")
            return
        rows = suggestion_rows(train, next_to_annotate(train, annotator, num=int(next_ or 0)))
        if out is not None:
            write_rows(out, rows)
        cells = [[str(row["index"]), row["file"], f"{row['uncertainty']:.4f}"] for row in rows]
        print_result(rows, [(["index", "file", "uncertainty"], cells)], as_json)
        if out is not None and not as_json:
            typer.echo(f"Wrote {out}.")


def _annotator_settings(pairs: list[str] | None) -> dict[str, Any]:
    settings = read_settings(pairs)
    check_names("settings of the annotator", settings, PseudoAnnotator().settings)
    return settings


def _refuse_other_file(out: Path, ending: str) -> None:
    """Raise, before anything is trained, if the result cannot be written there."""
    if out.suffix.lower() != ending:
        raise InvalidSettingError(
            f"Expected `--out` to be a file called *{ending} with --"
            f"{'rest, an archive of masks' if ending == '.npz' else 'next, a table'}, but got "
            f"{str(out)!r}. Call it {str(out.with_suffix(ending))!r}."
        )
    if out.is_dir():
        raise OutputError(f"Expected `--out` to be a file, but {out} is a folder.")
    writable_folder(out.parent)


def _training_data(
    name: str,
    data_dir: str | None,
    polarity: str | None,
    *,
    own_masks: bool,
    settings: dict[str, Any],
    seed: int,
) -> Dataset:
    """Load training data; images that have files stay on disk, so that the list can name them."""
    if name not in DATASETS and Path(name).is_dir():
        name, data_dir = "folder", name
    known = DATASETS.settings(name)
    given = {"seed": seed, **settings}
    if "in_memory" in known:
        given.setdefault("in_memory", False)
    if polarity is not None and "mask_polarity" in known:
        given.setdefault("mask_polarity", polarity)
    elif polarity is not None and own_masks:
        raise InvalidSettingError(
            f"Expected --mask-polarity with --annotations or images of your own alone, but got "
            f"{polarity!r} for {name!r}, whose masks have a polarity of their own. Leave it out."
        )
    return load(name, data_dir=data_dir, **given).train
