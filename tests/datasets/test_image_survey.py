import numpy as np

from rightreasons.datasets.images.manifest import read_manifest
from rightreasons.datasets.images.reader import survey


def test_images_of_one_size(pets):
    manifest, _ = read_manifest(pets)
    sound, size, problems = survey(manifest, None, workers=2)
    assert (sound, size, problems) == (list(manifest.entries), (8, 10), [])
    assert survey(manifest, (4, 4), workers=0) == (list(manifest.entries), (4, 4), [])


def test_every_problem_at_once(pets, save_image):
    (pets / "images/0.png").unlink()
    (pets / "masks/1.png").write_text("not an image")
    save_image(pets / "masks/2.png", np.zeros((8, 8)))
    (pets / "images/4.png").unlink()
    (pets / "masks/4.png").unlink()
    save_image(pets / "images/3.png", np.zeros((9, 10, 3)))
    manifest, _ = read_manifest(pets)
    sound, size, problems = survey(manifest, None, workers=2)
    assert size == (8, 10)
    assert problems == [
        "row 2, images/0.png: no such file",
        "row 3, mask masks/1.png: is not an image Pillow can read",
        "row 4, mask masks/2.png: has 8x8 pixels, but its image images/2.png has 8x10",
        "row 6, images/4.png: no such file",
        "row 6, mask masks/4.png: no such file",
        "the images have 2 different sizes (8x10 in row 3, 9x10 in row 5): pass `size`, a number "
        "of pixels or height and width, to resize them",
    ]
    assert [entry.row for entry in sound] == [5, 7, 8, 9, 10, 11, 12, 13]
