import gzip
import hashlib
import urllib.request

import pytest

from rightreasons.datasets.download import download
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError, OutputError

CONTENT = bytes(range(256)) * 4096
SHA = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def mirror(tmp_path):
    folder = tmp_path / "mirror"
    folder.mkdir()
    (folder / "file").write_bytes(CONTENT)
    (folder / "file.gz").write_bytes(gzip.compress(CONTENT))
    return folder.as_uri()


def files(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(("name", "unpack"), [("file", False), ("file.gz", True)])
def test_a_file_arrives_whole_in_a_new_folder(mirror, tmp_path, name, unpack):
    path = tmp_path / "data" / "deep" / "copy"
    download([f"{mirror}/{name}"], path, sha256=SHA, unpack=unpack)
    assert path.read_bytes() == CONTENT
    assert files(tmp_path / "data") == ["copy"]


def test_the_next_mirror_is_tried(mirror, tmp_path):
    (tmp_path / "mirror" / "longer").write_bytes(CONTENT + b"more")
    path = tmp_path / "data" / "copy"
    urls = [f"{mirror}/nothing", f"{mirror}/longer", f"{mirror}/file"]
    download(urls, path, sha256=SHA)
    assert path.read_bytes() == CONTENT


def test_no_mirror_has_it(mirror, tmp_path):
    path = tmp_path / "data" / "copy"
    with pytest.raises(DatasetNotFoundError, match="no mirror gave it .* put it at .*copy"):
        download([f"{mirror}/nothing"], path, sha256=SHA)
    assert files(tmp_path / "data") == []


def test_another_content_is_refused(mirror, tmp_path):
    path = tmp_path / "data" / "copy"
    with pytest.raises(DatasetCorruptError, match=f"sha256 {SHA}, expected 00"):
        download([f"{mirror}/file"], path, sha256="00")
    assert files(tmp_path / "data") == []


def test_a_truncated_archive_is_refused(mirror, tmp_path):
    archive = tmp_path / "mirror" / "file.gz"
    archive.write_bytes(archive.read_bytes()[:-20])
    with pytest.raises(DatasetCorruptError, match="Expected to download copy"):
        download([f"{mirror}/file.gz"], tmp_path / "data/copy", sha256=SHA, unpack=True)
    assert files(tmp_path / "data") == []


def test_an_interruption_leaves_nothing_and_keeps_what_was_there(tmp_path, monkeypatch):
    class Interrupted:
        headers = {"Content-Length": "1000"}
        num_reads = 0

        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

        def read(self, size):
            self.num_reads += 1
            if self.num_reads > 1:
                raise KeyboardInterrupt
            return b"some"

    monkeypatch.setattr(urllib.request, "urlopen", lambda url, timeout: Interrupted())
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "copy").write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt):
        download(["https://mirror.invalid/file"], tmp_path / "data" / "copy", sha256=SHA)
    assert files(tmp_path / "data") == ["copy"]
    assert (tmp_path / "data" / "copy").read_bytes() == b"old"


def test_a_folder_that_cannot_be_written(mirror, tmp_path):
    (tmp_path / "data").write_text("a file where a folder should be")
    with pytest.raises(OutputError, match="Choose a folder you may write to"):
        download([f"{mirror}/file"], tmp_path / "data" / "copy", sha256=SHA)
