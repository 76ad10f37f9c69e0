"""Stores by their address, names of studies, file systems."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from koloss.core.files import file_system, is_network
from koloss.errors import StoreError
from koloss.studies import Event, open_store
from koloss.studies.postgres import PostgresStore
from koloss.studies.sqlite import SQLiteStore
from koloss.studies.store import check_name


def test_a_relative_path_has_three_slashes_and_an_absolute_one_four(tmp_path, monkeypatch):
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path)
    store = open_store("sqlite:///below/a.db")
    assert store.path == tmp_path / "below" / "a.db"
    assert store.url == f"sqlite:///{tmp_path}/below/a.db"  # with four
    monkeypatch.chdir("/")
    store.create("a", [Event(1, "created", micros=0)])
    assert open_store(store.url).names() == ["a"]
    assert os.path.exists(tmp_path / "below" / "a.db")


def test_a_store_is_passed_through(tmp_path):
    store = SQLiteStore(tmp_path / "a.db")
    assert open_store(store) is store


@pytest.mark.parametrize(
    "url",
    ["a.db", "sqlite:a.db", "sqlite://a.db", "mysql://me:hush@host/a", "SQLITE:///a.db", "", "://",
     "postgresql:/me:hush@host/prices", "me:hush@host", "postgresql//me:hu@sh@host", "me:hush\n@h", "mysql:///db?PassWord=hush"],
)  # fmt: skip
def test_an_address_that_is_none(url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="`url` must be") as caught:
        open_store(url)
    assert "hu" not in str(caught.value)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("path", ["", ":memory:", "a.db?mode=ro", "a.db#b"])
def test_an_address_of_no_file(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="without options"):
        open_store(f"sqlite:///{path}")
    assert os.listdir(tmp_path) == []


def test_other_arguments_that_are_none(tmp_path):
    with pytest.raises(TypeError, match="`url` must be a string or a store, got PosixPath"):
        open_store(tmp_path / "a.db")
    rule = "`durability` must be one of 'power', 'process', got 'FULL'"
    for make in (open_store, SQLiteStore, PostgresStore):  # before anything is opened
        with pytest.raises(ValueError, match=rule):
            make("sqlite:///nowhere/a.db", durability="FULL")


# Names.


def test_names():
    for name in ("a", "A-1_b.c", "9", "-", "_", "...", "x" * 100):
        assert check_name(name) == name
    for name in ("", ".", "..", "x" * 101, "a b", "a\n", "\na", "ä", "a/b", "²"):
        with pytest.raises(ValueError, match="`name` must have 1 to 100 characters"):
            check_name(name)
    with pytest.raises(TypeError, match="`name` must be a string, got int"):
        check_name(5)
    with pytest.raises(ValueError, match="`name`") as caught:
        check_name("x y" * 10**6)
    assert len(str(caught.value)) < 400


# File systems.

TABLE = """\
22 27 0:21 / / rw,relatime - ext4 /dev/vda rw
23 22 0:22 / /home rw,relatime shared:7 master:1 - nfs4 server:/home rw,vers=4.2
24 23 0:23 / /home/local rw,relatime - xfs /dev/vdb rw
25 22 0:24 / /with\\040blank\\134 rw - cifs //server/share rw
26 22 0:25 / /twice rw - ext4 /dev/vdc rw
27 22 0:26 / /twice rw - fuse.sshfs me@host: rw
a line of another kind
28 22 0:27 /
"""


@pytest.mark.parametrize(
    "path, kind",
    [
        ("/a.db", "ext4"),
        ("/homes/a.db", "ext4"),  # not below /home
        ("/home/me/a.db", "nfs4"),
        ("/home/me/../local/a.db", "xfs"),
        ("/home/local/me/a.db", "xfs"),
        ("/with blank\\/a.db", "cifs"),
        ("/twice/a.db", "fuse.sshfs"),  # mounted over the other
    ],
)
def test_the_file_system_of_a_path(tmp_path, path, kind):
    table = tmp_path / "mountinfo"
    table.write_text(TABLE)
    assert file_system(path, table) == kind


def test_no_table_of_mounts(tmp_path):
    assert file_system("/a.db", tmp_path / "none") is None
    (tmp_path / "empty").touch()
    assert file_system("/a.db", tmp_path / "empty") is None


def test_which_file_systems_are_shared():
    assert all(map(is_network, ["nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "fuse", "fuse.sshfs"]))
    assert not any(map(is_network, ["ext4", "xfs", "btrfs", "overlay", "tmpfs", "fuseblk", None]))


def test_a_network_file_system_is_refused(tmp_path, monkeypatch):
    here = tmp_path / "there"
    here.mkdir()
    table = tmp_path / "mountinfo"
    table.write_text(f"22 27 0:21 / / rw - ext4 a rw\n23 22 0:22 / {here} rw - nfs4 b:/ rw\n")
    monkeypatch.setattr(file_system, "__defaults__", (table,))
    with pytest.raises(StoreError, match="nfs4 is shared by machines"):
        open_store(f"sqlite:///{here}/a.db")
    link = tmp_path / "link.db"
    link.symlink_to(here / "a.db")
    with pytest.raises(StoreError, match="nfs4"):
        open_store(f"sqlite:///{link}")
    assert os.listdir(here) == []
    assert open_store(f"sqlite:///{tmp_path}/a.db").facts()["file_system"] == "ext4"


@pytest.mark.skipif(not Path("/proc/self/mountinfo").exists(), reason="this system has no /proc")
def test_this_machine_has_file_systems(tmp_path):
    assert file_system("/proc/self/status") == "proc"
    assert file_system(tmp_path) not in (None, "proc")
