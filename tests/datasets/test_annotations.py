"""Masks from other tools: the same pixels from every format, and a sentence for every mistake."""

import base64
import csv
import io
import json
import random
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image, ImageOps
from tests.datasets.miniature import save

from rightreasons.cli.commands import app, main
from rightreasons.datasets import export_masks, folder, import_masks
from rightreasons.datasets.annotations.importing import FORMATS
from rightreasons.datasets.annotations.label_studio import decode_brush, encode_brush
from rightreasons.datasets.annotations.raster import (
    decode_counts,
    ellipse_outline,
    fill_polygon,
    fill_runs,
    rotate,
)
from rightreasons.errors import (
    DatasetCorruptError,
    DatasetNotFoundError,
    InvalidSettingError,
    OutputError,
    RightReasonsError,
)

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation")  # of pycocotools
SIZE = (48, 64)  # height, width
CORNERS = [[3.2, 5.0], [40.7, 2.1], [59.9, 30.3], [33.3, 44.4], [10.1, 40.0]]


def coco_tool():
    return pytest.importorskip("pycocotools.mask")


def truth():
    coco = coco_tool()
    flat = [number for corner in CORNERS for number in corner]
    return coco.decode(coco.frPyObjects([flat], *SIZE))[..., 0].astype(bool)


def coco(segmentation, **more):
    flat = {"image_id": 7, "category_id": 1, "id": 1, "segmentation": segmentation, **more}
    return {
        "images": [{"id": 7, "file_name": "a.png", "height": SIZE[0], "width": SIZE[1]}],
        "categories": [{"id": 1, "name": "tag"}, {"id": 2, "name": "ruler"}],
        "annotations": [flat],
    }


def result(kind, value, **more):
    sizes = {"original_width": SIZE[1], "original_height": SIZE[0], "image_rotation": 0}
    return {"type": kind, "value": {**value, kind: ["tag"]}, **sizes, **more}


def task(*annotations, image="/data/upload/1/0a1b2c3d-a.png"):
    results = [{"completed_by": n, "result": list(one)} for n, one in enumerate(annotations)]
    return {"id": 1, "data": {"image": image}, "annotations": results, "predictions": []}


def per_cent(corners):
    return [[100 * x / SIZE[1], 100 * y / SIZE[0]] for x, y in corners]


def labelme(*shapes):
    return {
        "imagePath": "a.png",
        "imageHeight": SIZE[0],
        "imageWidth": SIZE[1],
        "shapes": [{"label": "tag", "points": CORNERS, **shape} for shape in shapes],
    }


def cvat(*elements):
    root = ElementTree.Element("annotations")
    image = ElementTree.SubElement(
        root, "image", id="0", name="a.png", width=str(SIZE[1]), height=str(SIZE[0])
    )
    for kind, attributes in elements:
        ElementTree.SubElement(image, kind, {"label": "tag", **attributes})
    return ElementTree.tostring(root, encoding="unicode")


def png(mask):
    content = io.BytesIO()
    Image.fromarray(mask.astype(np.uint8) * 255).save(content, "PNG")
    return base64.b64encode(content.getvalue()).decode()


def runs_of(flat):
    edges = np.flatnonzero(np.diff(flat.astype(int))) + 1
    runs = np.diff([0, *edges, len(flat)]).tolist()
    return [0, *runs] if flat[0] else runs


def every_export():
    """The same mask in every form: format and content."""
    mask, encoded = truth(), coco_tool().encode(np.asfortranarray(truth().astype(np.uint8)))
    top, left = 2, 3
    part = mask[top:45, left:61]
    box = {"left": "3", "top": "2", "width": "58", "height": "43"}
    points = ";".join(f"{x},{y}" for x, y in CORNERS)
    rows = ", ".join(map(str, runs_of(part.ravel())))
    flat = [number for corner in CORNERS for number in corner]
    return {
        "coco polygon": ("coco", coco([flat])),
        "coco rle": ("coco", coco({"size": [*SIZE], "counts": runs_of(mask.T.ravel())})),
        "coco compressed": (
            "coco",
            coco({"size": [*SIZE], "counts": encoded["counts"].decode()}),
        ),
        "label studio polygon": (
            "label-studio",
            [task([result("polygonlabels", {"points": per_cent(CORNERS), "closed": True})])],
        ),
        "label studio brush": (
            "label-studio",
            [task([result("brushlabels", {"format": "rle", "rle": encode_brush(mask)})])],
        ),
        "labelme polygon": ("labelme", labelme({"shape_type": "polygon"})),
        "labelme mask": (
            "labelme",
            labelme({"shape_type": "mask", "points": [[3, 2], [60, 44]], "mask": png(part)}),
        ),
        "cvat polygon": ("cvat", cvat(("polygon", {"points": points}))),
        "cvat mask": ("cvat", cvat(("mask", {**box, "rle": rows}))),
    }


@pytest.fixture
def images(tmp_path):
    """Two images with a table."""
    root = tmp_path / "images"
    for name in ("a.png", "b.png"):
        save(root / name, np.random.default_rng(0).integers(0, 256, size=(*SIZE, 3)))
    rows = [["file", "label", "split"], ["a.png", "cat", "train"], ["b.png", "cat", "test"]]
    with (root / "data.csv").open("w", newline="") as lines:
        csv.writer(lines).writerows(rows)
    return root


def write(path, content):
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def imported(images, kind, content, **settings):
    """The mask of a.png after an import, in the house's polarity."""
    out = images.parent / f"out{len(list(images.parent.iterdir()))}"
    file = write(images.parent / "export", content)
    settings = {"polarity": "irrelevant", "labels": ["tag"], **settings}
    import_masks(kind, [file], images, out, **settings)
    return folder(out).train.batch.mask[0, 0].numpy().astype(bool)


def test_every_format_gives_the_same_pixels(images):
    expected = truth()
    assert 1000 < expected.sum() < 2500
    for name, (kind, content) in every_export().items():
        assert np.array_equal(imported(images, kind, content), expected), name
        turned = imported(images, kind, content, polarity="relevant")
        assert np.array_equal(turned, ~expected), name


@pytest.mark.parametrize("seed", range(3))
def test_the_rasteriser_equals_that_of_coco(seed):
    coco = coco_tool()
    rng = np.random.default_rng(seed)
    for number in range(150):
        height, width = (int(side) for side in rng.integers(1, 80, size=2))
        corners = rng.uniform(-20, 100, size=(rng.integers(3, 9), 2))
        corners = np.round(corners, number % 3)
        if np.abs(corners).max() > 4 * max(height, width):
            continue
        flat = corners.ravel().tolist()
        expected = coco.decode(coco.frPyObjects([flat], height, width))[..., 0].astype(bool)
        assert np.array_equal(fill_polygon(corners, (height, width)), expected), flat
        counts = coco.encode(np.asfortranarray(expected.astype(np.uint8)))["counts"].decode()
        runs = decode_counts(counts)
        assert np.array_equal(fill_runs(runs, (height, width), by_column=True), expected)
        assert np.array_equal(
            decode_brush(bytes(encode_brush(expected)), (height, width)), expected
        )


def test_literal_runs_of_a_brush():
    """Label Studio writes single values too: a 0 bit, a length, and each value."""
    values = [0, 0, 0, 9, 0, 0, 0, 0]
    bits = f"{8:032b}{7:05b}" + "".join(f"{size - 1:04b}" for size in (3, 4, 8, 16))
    bits += "0" + "00" + f"{7:03b}" + "".join(f"{value:08b}" for value in values)
    bits += "0" * (-len(bits) % 8)
    content = bytes(int(bits[place : place + 8], 2) for place in range(0, len(bits), 8))
    assert decode_brush(content, (1, 2)).tolist() == [[True, False]]


def test_boxes_ellipses_and_circles(images):
    box = [[10, 8], [10, 28], [40, 28], [40, 8]]
    expected = fill_polygon(np.array(box, dtype=float), SIZE)
    assert expected.sum() == 600
    numbers = {"x": 10, "y": 8, "width": 30, "height": 20}
    shares = {
        "x": 1000 / SIZE[1],
        "y": 800 / SIZE[0],
        "width": 3000 / SIZE[1],
        "height": 2000 / SIZE[0],
    }
    same = [
        ("coco", coco([], bbox=[10, 8, 30, 20])),
        ("label-studio", [task([result("rectanglelabels", shares)])]),
        ("labelme", labelme({"shape_type": "rectangle", "points": [[40, 28], [10, 8]]})),
        ("cvat", cvat(("box", {"xtl": "10", "ytl": "8", "xbr": "40", "ybr": "28"}))),
        ("boxes", "file,label,x,y,width,height\na.png,tag,10,8,30,20\nb.png,,,,,\n"),
        ("boxes", "file,label,xmin,ymin,xmax,ymax\na.png,tag,10,8,40,28\n"),
    ]
    for kind, content in same:
        assert np.array_equal(imported(images, kind, content), expected), kind
    assert set(numbers) == set(shares)
    disc = fill_polygon(ellipse_outline((30, 20), (12, 12)), SIZE)
    y, x = np.mgrid[: SIZE[0], : SIZE[1]] + 0.5
    assert (disc ^ (np.hypot(x - 30, y - 20) < 12)).sum() <= 12  # pixels at the edge
    round_ones = [
        ("labelme", labelme({"shape_type": "circle", "points": [[30, 20], [30, 32]]})),
        ("cvat", cvat(("ellipse", {"cx": "30", "cy": "20", "rx": "12", "ry": "12"}))),
        (
            "label-studio",
            [
                task(
                    [
                        result(
                            "ellipselabels",
                            {
                                "x": 3000 / SIZE[1],
                                "y": 2000 / SIZE[0],
                                "radiusX": 1200 / SIZE[1],
                                "radiusY": 1200 / SIZE[0],
                            },
                        )
                    ]
                )
            ],
        ),
    ]
    for kind, content in round_ones:
        assert np.array_equal(imported(images, kind, content), disc), kind


def test_regions_are_rotated_in_pixels(images):
    """Label Studio turns about the top left corner, CVAT about the centre; both clockwise."""
    corners = np.array([[20.0, 10.0], [20.0, 14.0], [40.0, 14.0], [40.0, 10.0]])
    upright = fill_polygon(np.array([[20.0, 10], [16, 10], [16, 30], [20, 30]]), SIZE)
    shares = {
        "x": 2000 / SIZE[1],
        "y": 1000 / SIZE[0],
        "width": 2000 / SIZE[1],
        "height": 400 / SIZE[0],
        "rotation": 90,
    }
    turned = imported(images, "label-studio", [task([result("rectanglelabels", shares)])])
    assert np.array_equal(turned, upright)
    box = {"xtl": "20", "ytl": "10", "xbr": "40", "ybr": "14", "rotation": "30"}
    expected = fill_polygon(rotate(corners, 30, (30, 12)), SIZE)
    assert np.array_equal(imported(images, "cvat", cvat(("box", box))), expected)
    assert expected[16, 36]  # the right end went down
    assert not expected[16, 24]


def test_several_annotators(images):
    boxes = [[[10, 10], [10, 30], [30, 30], [30, 10]], [[20, 10], [20, 30], [40, 30], [40, 10]]]
    first, second = ([result("polygonlabels", {"points": per_cent(corners)})] for corners in boxes)
    content = [task(first, second, second)]
    content[0]["annotations"].append({"was_cancelled": True, "result": first})
    left, right = (fill_polygon(np.array(one, dtype=float), SIZE) for one in boxes)
    with pytest.raises(InvalidSettingError, match="a.png has 3. Say how .*--annotators union"):
        imported(images, "label-studio", content)
    union = imported(images, "label-studio", content, annotators="union")
    assert np.array_equal(union, left | right)
    majority = imported(images, "label-studio", content, annotators="majority")
    assert np.array_equal(majority, right)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("drawn_on", ["upright", "stored"])
def test_masks_of_turned_photographs_are_upright(images, orientation, drawn_on):
    tag = Image.Exif()
    tag[0x0112] = orientation
    pixels = Image.new("L", SIZE[::-1])
    pixels.save(images / "a.png", exif=tag)
    stored = fill_polygon(np.array(CORNERS), SIZE)
    photo = Image.fromarray(stored.astype(np.uint8) * 255)
    photo.save(images / "mask.png", exif=tag)
    upright = np.asarray(ImageOps.exif_transpose(Image.open(images / "mask.png"))) > 0
    shape = SIZE if drawn_on == "stored" else upright.shape
    flat = [number for corner in CORNERS for number in corner]
    if drawn_on == "upright" and orientation > 4:
        flat = [0, 0, 20, 0, 20, 50]
    content = coco([flat])
    content["images"][0].update(height=shape[0], width=shape[1])
    (images / "mask.png").unlink()
    rows = "file,label,split\na.png,cat,train\na.png,cat,test\n"
    (images / "data.csv").write_text(rows.replace("\na.png,cat,test", "\nb.png,cat,test"))
    Image.new("L", upright.shape[::-1]).save(images / "b.png")
    ambiguous = orientation in (2, 3, 4)
    if ambiguous:
        with pytest.raises(
            DatasetCorruptError, match=f"a.png has the orientation tag {orientation}"
        ):
            imported(images, "coco", content)
    settings = {"orientation": drawn_on} if ambiguous else {}
    mask = imported(images, "coco", content, **settings)
    if orientation == 1 or drawn_on == "stored":
        assert np.array_equal(mask, upright)
    else:
        assert np.array_equal(mask, fill_polygon(np.reshape(flat, (-1, 2)), shape))


def test_nothing_is_dropped_in_silence(images, capsys):
    flat = [number for corner in CORNERS for number in corner]
    content = coco([flat])
    content["annotations"].append({"image_id": 7, "category_id": 2, "bbox": [1, 1, 5, 5]})
    content["annotations"].append({"image_id": 7, "category_id": 1, "bbox": [90, 90, 1, 1]})
    file, out = write(images.parent / "coco.json", content), images.parent / "data"
    with pytest.raises(
        InvalidSettingError, match=r"several: ruler \(1\), tag \(2\). Pass --labels"
    ):
        import_masks("coco", [file], images, out, polarity="irrelevant")
    with pytest.raises(InvalidSettingError, match=r"labels that occur \(ruler .* but got tags"):
        import_masks("coco", [file], images, out, polarity="irrelevant", labels=["tags"])
    done = import_masks("coco", [file], images, out, polarity="irrelevant", labels=["tag"])
    assert (done.num_images, done.num_masks, done.complete) == (2, 1, True)
    assert (done.taken, done.left) == ({"tag": 2}, {"ruler": 1})
    assert done.empty == ["coco.json.annotations[2]"]
    with pytest.raises(OutputError, match="a new folder for --out, but .* exists"):
        import_masks("coco", [file], images, out, polarity="irrelevant", labels=["tag"])
    table = (out / "data.csv").read_text().splitlines()
    assert table == [
        "file,label,split,irrelevant_mask",
        "../images/a.png,cat,train,masks/a.png",
        "../images/b.png,cat,test,",
    ]
    both = import_masks(
        *("coco", [file], images, images.parent / "both"),
        polarity="irrelevant",
        labels=["tag", "ruler"],
        empty=True,
    )
    assert both.num_masks == 1  # b.png is not in the export


@pytest.mark.parametrize(
    ("kind", "content", "words"),
    [
        ("coco", coco([[1, 2, 3, 4]]), r"segmentation\[0\]: has 4 numbers, expected x and y of 3"),
        ("coco", coco({"size": [9, 9], "counts": [81]}), "has 9x9 pixels, but its image 64x48"),
        ("coco", coco({"size": [48, 64], "counts": [1]}), "has runs of 1 pixels together"),
        ("coco", coco({"size": [48, 64], "counts": "é"}), "'é', which no compressed mask has"),
        ("coco", coco([[0, 0, 9, 9, 1e6, 2]]), "far outside its 64x48 image"),
        ("coco", coco([[0, 0, 9, None, 1, 2]]), r"\[0\]\[3\]: expected a number, but got null"),
        ("coco", coco([], bbox=[1, 2, -3, 4]), "is a box with the width -3"),
        ("coco", {"images": []}, "lists no image"),
        ("coco", [1], "export: expected an object, but got"),
        ("coco", "{", "export: is no JSON in UTF-8"),
        (
            "coco",
            {**coco([]), "annotations": [{"image_id": 8, "category_id": 1}]},
            r"annotations\[0\]: is of the image 8, which is not listed",
        ),
        ("label-studio", [{"image": "a.png", "label": []}], "not as JSON-MIN"),
        (
            "label-studio",
            [task([result("polygonlabels", {"points": CORNERS})], image="/c.png")],
            "/c.png is none of the images",
        ),
        (
            "label-studio",
            [task([result("keypointlabels", {"x": 1, "y": 2})])],
            "is a keypointlabels, which has no area",
        ),
        (
            "label-studio",
            [task([result("polygonlabels", {"points": per_cent(CORNERS), "closed": False})])],
            "is a polygon, which is not closed",
        ),
        (
            "label-studio",
            [task([result("brushlabels", {"rle": [1, 2, 300]})])],
            "has the number 300, expected bytes",
        ),
        (
            "label-studio",
            [task([result("brushlabels", {"rle": [0] * 9})])],
            "has 0 values, but 64x48",
        ),
        (
            "label-studio",
            [task([result("brushlabels", {"rle": encode_brush(np.ones(SIZE, bool))[:9]})])],
            "ends after 9 bytes",
        ),
        (
            "label-studio",
            [task([result("brushlabels", {"rle": [1]}, image_rotation=90)])],
            "is a brush, drawn on a turned image",
        ),
        (
            "label-studio",
            [task([{**result("polygonlabels", {"points": CORNERS}), "original_width": 9}])],
            "a.png was annotated with 9x48 pixels, but has 64x48",
        ),
        ("labelme", labelme({"shape_type": "line"}), "is a line, which has no area"),
        ("labelme", labelme({"shape_type": "circle"}), "has 5 points, expected 2"),
        (
            "labelme",
            labelme({"shape_type": "mask", "points": [[1, 1], [2, 2]], "mask": "%%"}),
            "is no mask as PNG in base 64",
        ),
        (
            "labelme",
            labelme(
                {
                    "shape_type": "mask",
                    "points": [[60, 1], [70, 2]],
                    "mask": png(np.ones(SIZE, bool)),
                }
            ),
            "outside of its image",
        ),
        ("cvat", cvat(("polyline", {"points": "1,1;2,2"})), "is a polyline, which has no area"),
        ("cvat", cvat(("polygon", {"points": "1;2"})), "points other than x,y;x,y"),
        ("cvat", cvat(("box", {"xtl": "nan"})), "expected a number for 'xtl', but got 'nan'"),
        ("cvat", cvat(("mask", {"rle": "5,x"})), "invalid literal"),
        ("cvat", "<!DOCTYPE a [<!ENTITY b 'c'>]><annotations/>", "it defines entities"),
        ("cvat", "<annotations><track/></annotations>", "has tracks of a video"),
        ("cvat", "<a/>", "begins with <a>, expected <annotations>"),
        ("boxes", "file,label,x\na.png,tag,1\n", "expected file, label, and x, y, width, height"),
        ("boxes", "file,label,x,y,width,height\na.png,tag,1,1,z,2\n", "row 2: expected a number"),
        ("boxes", "file,label,x,y,width,height\n,tag,1,1,1,2\n", "row 2: names no file"),
    ],
)
def test_mistakes_are_named_with_their_place(images, kind, content, words):
    with pytest.raises(DatasetCorruptError, match=words):
        imported(images, kind, content)
    assert not [path for path in images.parent.iterdir() if path.name.lstrip(".").startswith("out")]


def damage(content, rng):
    """Change an export as a careless tool, an editor or a bad disk would."""
    text = content if isinstance(content, str) else json.dumps(content)
    way = rng.randrange(6)
    if way == 0:
        return text[: rng.randrange(len(text))]
    if way == 1:
        place = rng.randrange(len(text))
        return text[:place] + rng.choice('{}[]",:<>/0e-\\ \x00é') + text[place + 1 :]
    if way == 2:
        start = rng.randrange(len(text))
        return text[:start] + text[start + rng.randrange(1, 60) :]
    if isinstance(content, str):
        words = [
            word for word in ("polygon", "points", "label", "width", "name", ",") if word in text
        ]
        odd = ["", "nan", "-1", "1e400", "x" * 50, "é"]
        return text.replace(rng.choice(words), rng.choice(odd), rng.choice([1, 9]))
    changed = json.loads(text)
    holders = [changed]
    for holder in holders:  # all lists and objects of the file
        inner = holder.values() if isinstance(holder, dict) else holder
        holders += [one for one in inner if isinstance(one, dict | list) and one]
    holder = rng.choice(holders)
    keys = list(holder) if isinstance(holder, dict) else range(len(holder))
    key = rng.choice(list(keys))
    if way == 3:
        del holder[key]
    else:
        odd = [
            None,
            True,
            -1,
            10**30,
            1e308,
            float("nan"),
            "",
            "x",
            [],
            {},
            [[]],
            [None],
            "../../x",
        ]
        holder[key] = rng.choice(odd)
    return json.dumps(changed)


@pytest.mark.slow
def test_500_damaged_exports_end_in_a_sentence(images):
    rng = random.Random(11)
    exports = list(every_export().values())
    refused = 0
    file, out = images.parent / "export", images.parent / "out"
    for number in range(500):
        kind, content = exports[number % len(exports)]
        damaged = damage(content, rng)
        file.write_text(damaged, encoding="utf-8")
        before = sorted(path.name for path in images.parent.iterdir())
        try:
            import_masks(kind, [file], images, out, polarity="irrelevant", labels=["tag"])
        except RightReasonsError as error:
            refused += 1
            told = str(error)
            assert told.startswith("Expected "), (damaged, told)
            assert "Traceback" not in told
            named = ("export", "labels that occur", "annotation of each", "on the images")
            assert any(word in told for word in named), (damaged, told)
            assert sorted(path.name for path in images.parent.iterdir()) == before
        else:
            data = folder(out, size=SIZE)
            assert data.train.batch.mask.shape == (1, 1, *SIZE)
            for path in sorted(out.rglob("*"), reverse=True):
                path.unlink() if path.is_file() else path.rmdir()
            out.rmdir()
    assert 350 < refused < 500  # some changes do no harm, such as one of an id


def test_labelme_folders_and_class_folders(tmp_path):
    for number in range(10):
        save(tmp_path / "pets" / ("cat", "dog")[number % 2] / f"{number}.png", np.zeros(SIZE))
    marks = tmp_path / "marks"
    for number in (3, 8):
        content = labelme({"shape_type": "polygon"}) | {"imagePath": f"{number}.png"}
        (marks / "day").mkdir(parents=True, exist_ok=True)
        write(marks / "day" / f"{number}.json", content)
    done = import_masks(
        *("labelme", [marks], tmp_path / "pets", tmp_path / "out"), polarity="relevant"
    )
    assert (done.num_images, done.num_masks) == (10, 2)
    data = folder(tmp_path / "out")
    assert data.card.classes == ("cat", "dog")
    assert (tmp_path / "out/masks/dog/3.png").is_file()
    with pytest.raises(DatasetNotFoundError, match="Expected images in .*marks, but there are"):
        import_masks("labelme", [marks], marks, tmp_path / "other", polarity="relevant")


def test_flat_images_get_masks_and_a_word_about_labels(images, capsys, monkeypatch):
    (images / "data.csv").unlink()
    file = write(images.parent / "marks.json", labelme({}))
    words = ["data", "import", "labelme", file, "--images", images, "--polarity", "irrelevant"]
    monkeypatch.setattr("sys.argv", ["rightreasons", *map(str, words), "--out", str(images / "d")])
    app(standalone_mode=False, args=[*map(str, words), "--out", str(images.parent / "d")])
    shown = capsys.readouterr().out
    assert "regions taken: tag" in shown
    assert "Add the columns label and split to" in shown
    with pytest.raises(SystemExit):
        monkeypatch.setattr("sys.argv", ["rightreasons", "data", "import", "coco", "nothing.json"])
        main()


def test_the_way_back_to_label_studio(images):
    mask = imported(images, "coco", every_export()["coco rle"][1])
    out = next(path for path in images.parent.iterdir() if path.name.startswith("out"))
    tasks = images.parent / "tasks.json"
    assert export_masks(out, tasks, label="tag", prefix="/data/local-files/?d=") == 2
    assert np.array_equal(imported(images, "label-studio", tasks.read_text()), mask)
    save(out / "masks" / "a.png", np.zeros((3, 3)))
    with pytest.raises(DatasetCorruptError, match="mask masks/a.png: has 3x3 pixels"):
        export_masks(out, tasks)


def test_every_format_has_a_name():
    assert sorted(FORMATS) == ["boxes", "coco", "cvat", "label-studio", "labelme"]
