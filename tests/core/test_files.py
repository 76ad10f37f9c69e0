"""Files that are replaced whole."""

from __future__ import annotations

import errno
import os
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from koloss.core.files import PARTS, replacing, write_text


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_the_former_file_stays_until_the_end_and_where_anything_fails(tmp_path, error):
    path = tmp_path / "page.html"
    write_text(path, "former")

    def fail():
        with replacing(path) as file:
            file.write(b"half")
            file.flush()
            assert path.read_text() == "former"
            raise error

    with pytest.raises(error):
        fail()
    assert names(tmp_path) == ["page.html"]
    assert path.read_text() == "former"
    write_text(path, "Σ")
    assert path.read_bytes() == "Σ".encode()
    assert names(tmp_path) == ["page.html"]


def test_text_that_cannot_be_written_leaves_nothing(tmp_path):
    with pytest.raises(UnicodeEncodeError):
        write_text(tmp_path / "page.html", "\ud800")
    assert names(tmp_path) == []


def test_the_disk_has_the_file_before_its_name_and_the_name_at_the_end(tmp_path, monkeypatch):
    done, sync, replace = [], os.fsync, os.replace

    def fsync(handle):
        done.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        sync(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", lambda *paths: (done.append("name"), replace(*paths)))
    write_text(tmp_path / "page.html", "text")
    assert done == ["file", "name", "folder"] if os.name == "posix" else ["file", "name"]


def test_a_full_disk_names_the_file(tmp_path):
    path = tmp_path / "page.html"
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with pytest.raises(OSError, match=r": .*page\.html'$") as caught, replacing(path):
        raise full
    assert caught.value.filename == str(path)
    with pytest.raises(OSError, match=r"^without a number$"), replacing(path):
        raise OSError("without a number")
    with pytest.raises(FileNotFoundError) as caught:
        write_text(tmp_path / "nowhere" / "page.html", "text")
    assert caught.value.filename == str(tmp_path / "nowhere" / "page.html")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match=r"folder'$") as caught:
        write_text(tmp_path / "folder", "text")
    assert ".part" not in str(caught.value)
    assert names(tmp_path) == ["folder"]


@pytest.mark.skipif(os.name != "posix", reason="modes and links are POSIX")
def test_modes_and_links(tmp_path):
    """Others may read what they may read of any new file, and a link stays one."""
    (tmp_path / "plain").write_text("text")
    path, link = tmp_path / "page.html", tmp_path / "link.html"
    link.symlink_to(path.name)
    write_text(link, "text")
    assert path.stat().st_mode == (tmp_path / "plain").stat().st_mode
    assert link.is_symlink()
    assert path.read_text() == "text"


def test_many_may_write_to_one_path(tmp_path):
    path = tmp_path / "page.html"

    def write(k):
        write_text(path, str(k) * 1000)
        return len({*path.read_text()}), len(path.read_text())

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(write, [0, 1, 2, 3] * 20)) == {(1, 1000)}
    assert not list(tmp_path.glob(PARTS))
