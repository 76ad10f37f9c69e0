"""Files that are replaced whole."""

from __future__ import annotations

import errno
import os
import signal
import stat
from concurrent.futures import ThreadPoolExecutor
from os import _exit as exit_at_once

import pytest

from koloss.core.files import PARTS, locked, replacing, write_text


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


def modes(folder):
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


def test_a_private_file_is_for_its_owner_alone(tmp_path):
    for private in (False, True):
        with replacing(tmp_path / f"{private}", private=private) as file:
            file.write(b"1")
    umask = os.umask(0)
    os.umask(umask)
    assert modes(tmp_path) == {"False": 0o666 & ~umask, "True": 0o600}
    (tmp_path / "True").chmod(0o640)  # its owner has said otherwise
    with replacing(tmp_path / "True", private=True) as file:
        file.write(b"2")
    assert modes(tmp_path)["True"] == 0o640


# Locks.


def test_threads_and_processes_have_a_lock_in_turn(tmp_path):
    counter = tmp_path / "counter"
    counter.write_text("0")

    def add(times=25):
        for _ in range(times):
            with locked(tmp_path / "lock"):
                counter.write_text(str(int(counter.read_text()) + 1))

    child = os.fork()
    if child == 0:
        add()
        exit_at_once(0)
    with ThreadPoolExecutor(3) as pool:
        for one in [pool.submit(add) for _ in range(3)]:
            one.result()
    assert os.waitpid(child, 0)[1] == 0
    assert counter.read_text() == "100"
    assert modes(tmp_path)["lock"] == 0o600


@pytest.mark.parametrize("wait", [0, 0.05])
def test_a_lock_that_another_has_is_waited_for_so_long_and_no_longer(tmp_path, wait):
    with locked(tmp_path / "lock"):
        with (
            pytest.raises(BlockingIOError, match="another has the lock") as caught,
            locked(tmp_path / "lock", wait=wait),
        ):
            raise AssertionError
        assert caught.value.filename == str(tmp_path / "lock")
    with locked(tmp_path / "lock", wait=wait):
        pass


def test_a_lock_that_is_removed_is_another_one(tmp_path):
    with locked(tmp_path / "lock"):
        os.unlink(tmp_path / "lock")
        with locked(tmp_path / "lock", wait=0, remove=True):
            assert names(tmp_path) == ["lock"]
    assert names(tmp_path) == []


def test_whoever_waits_at_a_lock_that_is_removed_waits_at_the_next(tmp_path):
    path, seen = tmp_path / "lock", []

    def work():
        with locked(path, remove=True):
            seen.append(names(tmp_path))

    with ThreadPoolExecutor(2) as pool:
        with locked(path, remove=True):
            both = [pool.submit(work) for _ in range(2)]
        for one in both:
            one.result()
    assert seen == [["lock"], ["lock"]]


def test_no_lock_but_an_ordinary_file(tmp_path):
    """Whoever can write into the folder cannot make others wait, or write elsewhere."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "link", "folder"):
        with pytest.raises(OSError, match=name), locked(tmp_path / name):
            raise AssertionError
    assert names(tmp_path) == ["folder", "link", "pipe"]


def test_a_fork_has_no_lock_of_its_parents(tmp_path):
    path = tmp_path / "lock"
    with locked(path):
        child = os.fork()
        if child == 0:
            try:
                with locked(path, wait=0):
                    exit_at_once(1)
            except BlockingIOError:
                exit_at_once(0)
        assert os.waitpid(child, 0)[1] == 0
    ready, tell = os.pipe()
    holder = os.fork()
    if holder == 0:
        with locked(path):
            if os.fork() == 0:
                os.write(tell, b"%d" % os.getpid())
                signal.pause()
            signal.pause()
    grandchild = int(os.read(ready, 100))
    os.kill(holder, signal.SIGKILL)
    os.waitpid(holder, 0)
    try:
        with locked(path, wait=60):  # although a child of the dead lives on
            pass
    finally:
        os.kill(grandchild, signal.SIGKILL)
