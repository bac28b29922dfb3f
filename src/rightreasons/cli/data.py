"""The commands for the user's own data: import and export masks, check everything."""

from __future__ import annotations

import shlex
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from rightreasons import datasets
from rightreasons.cli.options import AsJson, Out, print_result, read_settings, split_names
from rightreasons.core.checks import check_path
from rightreasons.datasets.images.row_checks import KINDS

__all__ = ["data"]

SHOWN = 3

data = typer.Typer(no_args_is_help=True, help="Bring your own data: import masks, check the data.")
export = typer.Typer(no_args_is_help=True, help="Write masks for other tools.")
data.add_typer(export, name="export")


@data.command("import")
def import_(
    format_: Annotated[
        str,
        typer.Argument(
            metavar="FORMAT", help="coco, label-studio, labelme, cvat, or boxes (a table)."
        ),
    ],
    files: Annotated[
        list[Path], typer.Argument(help="Files of the export; for labelme also a folder.")
    ],
    images: Annotated[
        Path,
        typer.Option(
            help="Folder with the images; its data.csv or class folders say labels and splits.",
            parser=check_path,
            metavar="PATH",
        ),
    ],
    polarity: Annotated[
        str, typer.Option(help="What the regions mark: irrelevant or relevant for the label.")
    ],
    out: Out,
    labels: Annotated[
        str | None, typer.Option(help="Labels of the regions to take, with commas.")
    ] = None,
    annotators: Annotated[
        str | None, typer.Option(help="How to combine several annotators: union or majority.")
    ] = None,
    orientation: Annotated[
        str | None,
        typer.Option(
            help="For photographs with a tag: regions lie on the upright or stored image."
        ),
    ] = None,
    empty_masks: Annotated[
        bool, typer.Option("--empty-masks", help="Images without regions have nothing to mark.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Random seed for splits of class folders.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Make a data folder with masks drawn in another tool; all of it or nothing is written."""
    result = datasets.import_masks(
        format_,
        files,
        images,
        out,
        polarity=polarity,
        labels=split_names(labels),
        annotators=annotators,
        orientation=orientation,
        empty=empty_masks,
        seed=seed,
    )
    rows = [["images", str(result.num_images)], ["masks", str(result.num_masks)]]
    rows += [[f"regions taken: {name}", str(count)] for name, count in result.taken.items()]
    rows += [[f"regions left: {name}", str(count)] for name, count in result.left.items()]
    rows += [[f"not read: {name}", str(count)] for name, count in result.ignored.items()]
    if result.empty:
        first = ", ".join(result.empty[:SHOWN]) + (", …" if len(result.empty) > SHOWN else "")
        rows.append([f"regions without a pixel: {first}", str(len(result.empty))])
    print_result({**asdict(result), "folder": str(out)}, [(["imported", ""], rows)], as_json)
    if as_json:
        return
    if result.complete:
        where = shlex.quote(str(out))
        typer.echo(f"Train with: rightreasons train --data folder --data-dir {where} --recipe r3 …")
    else:
        typer.echo(f"Add the columns label and split to {out / 'data.csv'} before you train.")


@data.command("check")
def check(
    folder: Annotated[
        Path, typer.Argument(help="Folder of images: a data.csv or class folders.", metavar="DATA")
    ],
    least_group: Annotated[
        int, typer.Option(help="Fewest samples of a group in validation and test.")
    ] = 10,
    most_imbalance: Annotated[
        int, typer.Option(help="Largest ratio of the sizes of two classes in training.")
    ] = 10,
    value_range: Annotated[
        str | None,
        typer.Option(help="Values that are black and white in images of over 8 bits: low,high."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List every problem of a folder of images with file and row; exit code 1 if there is one."""
    scale = read_settings([f"range=[{value_range}]"])["range"] if value_range else None
    problems = datasets.check_data(
        folder, least_group=least_group, most_imbalance=most_imbalance, value_range=scale
    )
    if as_json:
        value = {"folder": str(folder), "problems": [asdict(problem) for problem in problems]}
        print_result(value, [], as_json)
    else:
        for problem in problems:
            typer.echo(f"{problem} [{problem.kind}]")
        counts = Counter(problem.kind for problem in problems)
        rows = [[kind, str(count), KINDS[kind]] for kind, count in counts.most_common()]
        found = f"{len(problems)} problem{'' if len(problems) == 1 else 's'} in {folder}"
        print_result(None, [([found, "", ""], rows)], as_json)
    if problems:
        raise typer.Exit(1)


@export.command("label-studio")
def export_label_studio(
    folder: Annotated[
        Path, typer.Argument(help="Folder with a data.csv and masks.", metavar="DATA")
    ],
    out: Annotated[
        Path, typer.Option(help="The JSON file to write.", parser=check_path, metavar="PATH")
    ],
    label: Annotated[str, typer.Option(help="Label of the brush strokes.")] = "mask",
    prefix: Annotated[
        str, typer.Option(help="What stands before a file, such as /data/local-files/?d=")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Write images and masks as tasks that Label Studio imports."""
    num = datasets.export_masks(folder, out, label=label, prefix=prefix)
    print_result(
        {"tasks": num, "file": str(out)}, [([f"Wrote {num} tasks to {out}."], [])], as_json
    )
