"""Compiled programs on disk: where, for whom, how many, and whose settings count."""

import os
import stat
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from jax.experimental.compilation_cache.compilation_cache import reset_cache

import widefield as wf
from widefield.base import cache_folder
from widefield.base.session import watching_compilation

SETTINGS = ("jax_compilation_cache_dir", *wf.cache._SETTINGS)
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="modes of files")


def settings():
    return {name: getattr(jax.config, name) for name in SETTINGS}


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A folder that does not exist yet, in a process in which nobody has chosen one."""
    for name in SETTINGS:
        monkeypatch.delenv(name.upper(), raising=False)
    before = settings()
    jax.config.update("jax_compilation_cache_dir", None)
    reset_cache()
    monkeypatch.setenv("WIDEFIELD_CACHE", str(tmp_path / "programs"))
    yield tmp_path / "programs"
    wf.cache.disable()
    for name, value in before.items():
        jax.config.update(name, value)
    reset_cache()


def compile_something(number=1.0):
    with watching_compilation() as seen:
        jax.jit(lambda x: jnp.sin(x) + number)(jnp.zeros(3)).block_until_ready()
    return seen


def test_what_was_compiled_is_found_again(root):
    before = settings()
    place = wf.cache.enable()
    assert place == wf.cache.folder()
    assert place.parent == root
    compile_something()
    assert wf.cache.size() == sum(path.stat().st_size for path in place.iterdir()) > 0
    jax.clear_caches()
    again = compile_something()
    assert (again.programs, again.loaded > 0) == (0, True)
    kept = len(wf.cache.programs())

    wf.cache.disable()
    assert settings() == before
    jax.clear_caches()
    assert compile_something().programs > 0
    compile_something(2.0)
    assert len(wf.cache.programs()) == kept, "programs are kept after disable"


def test_clear_removes_programs_of_all_versions_and_nothing_else(root):
    wf.cache.enable()
    older = root / "jax-0.8.0-jaxlib-0.8.0-0123456789ab"
    older.mkdir()
    others = [root / "thesis-cache", root / "jax-0.8.0-jaxlib-0.8.0-0123456789ab" / "notes.txt"]
    for path in (older / "jit_f-1-cache", *others):
        path.write_text("something")
    compile_something()
    count = len(wf.cache.programs())
    assert count > 1
    assert wf.cache.clear() == count
    assert (wf.cache.programs(), wf.cache.size()) == ([], 0)
    assert all(path.exists() for path in others)
    jax.clear_caches()
    compile_something()
    assert wf.cache.programs(), "nothing is kept after a clear"


def test_only_we_may_look_into_the_folder(root):
    old = os.umask(0)
    try:
        place = wf.cache.enable()
    finally:
        os.umask(old)
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in (root, place)] == [0o700, 0o700]


@pytest.mark.parametrize("mode", [0o770, 0o702])
@pytest.mark.parametrize("which", ["root", "place"])
def test_a_folder_that_others_can_write_to_is_refused(root, mode, which):
    place = wf.cache.folder()
    place.mkdir(parents=True, mode=0o700)
    root.chmod(0o700)
    open_to_all = {"root": root, "place": place}[which]
    open_to_all.chmod(mode)
    with pytest.warns(UserWarning, match=f"not kept: other users can write to {open_to_all}; .*WIDEFIELD_CACHE"):
        assert wf.cache.enable() is None
    assert jax.config.jax_compilation_cache_dir is None
    with pytest.raises(wf.FileProblem, match="other users"):
        wf.cache.enable(throw=True)


def test_a_folder_of_somebody_else_is_refused(root, monkeypatch):
    wf.cache.enable()
    wf.cache.disable()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.warns(UserWarning, match=f"{root} belongs to another user"):
        assert wf.cache.enable() is None
    assert jax.config.jax_compilation_cache_dir is None


def test_a_folder_that_cannot_be_made_is_no_obstacle(root, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("WIDEFIELD_CACHE", str(tmp_path / "file" / "folder"))
    with pytest.warns(UserWarning, match="not kept: cannot write to .*file/folder.*: Not a directory"):
        assert wf.cache.enable() is None
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    monkeypatch.setenv("WIDEFIELD_CACHE", str(root))
    with pytest.warns(UserWarning, match="not kept: cannot write to"):
        assert wf.cache.enable() is None
    assert compile_something().loaded == 0


@pytest.mark.parametrize("word", ["off", "OFF", "0", "no", "false"])
def test_off(root, monkeypatch, word):
    monkeypatch.setenv("WIDEFIELD_CACHE", word)
    before = settings()
    assert (wf.cache.enable(), wf.cache.folder(), wf.cache.programs(), wf.cache.clear()) == (None, None, [], 0)
    assert settings() == before


def test_a_word_that_means_nothing_is_an_error(root, monkeypatch):
    monkeypatch.setenv("WIDEFIELD_CACHE", "of")
    with pytest.raises(wf.InvalidInput, match="WIDEFIELD_CACHE = 'of' must be off or a folder"):
        wf.cache.enable()


def test_what_jax_was_told_stays(root, tmp_path, monkeypatch):
    own = str(tmp_path / "own")
    jax.config.update("jax_compilation_cache_dir", own)
    before = settings()
    assert wf.cache.enable() == Path(own)
    wf.cache.disable()
    assert settings() == before
    jax.config.update("jax_compilation_cache_dir", None)
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", own)
    assert wf.cache.enable() == Path(own)
    assert jax.config.jax_compilation_cache_dir is None
    assert not root.exists()


def test_what_jax_is_told_later_stays(root, tmp_path):
    wf.cache.enable()
    jax.config.update("jax_compilation_cache_dir", str(tmp_path / "own"))
    assert wf.cache.enable() == tmp_path / "own"


def test_a_setting_in_the_environment_stays(root, monkeypatch):
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "3")
    before = settings()
    wf.cache.enable()
    name = "jax_persistent_cache_min_compile_time_secs"
    assert settings()[name] == before[name]


def test_the_users_folder(monkeypatch):
    monkeypatch.delenv("WIDEFIELD_CACHE", raising=False)
    monkeypatch.setenv("HOME", "/home/ada")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "/scratch/ada")
    assert cache_folder.root() == Path("/scratch/ada/widefield")
    for ignored in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", ignored)
        assert cache_folder.root() == Path("/home/ada/.cache/widefield")
    monkeypatch.setattr(sys, "platform", "darwin")
    assert cache_folder.root() == Path("/home/ada/Library/Caches/widefield")
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", "/Users/ada/Local")
    assert cache_folder.root() == Path("/Users/ada/Local/widefield")
    monkeypatch.setattr(cache_folder, "_users_caches", lambda: Path("~/.cache"))
    assert cache_folder.root() is None, "without a home nothing is kept, least of all in the folder where we are"


def test_versions_and_processors_have_folders_of_their_own(monkeypatch):
    here = cache_folder.key()
    assert cache_folder.key() == here
    assert f"jax-{jax.__version__}-jaxlib-{jax.lib.__version__}-" in here
    with monkeypatch.context() as patch:
        patch.setattr(cache_folder, "_processor", lambda: "another")
        assert cache_folder.key() != here
    monkeypatch.setattr(cache_folder, "version", lambda package: "0.0.1" if package == "jaxlib" else "0.10.2")
    assert "jaxlib-0.0.1" in cache_folder.key()


@pytest.mark.skipif(not Path("/proc/cpuinfo").exists(), reason="no description of the processor")
def test_a_processor_is_its_model_and_instructions_and_not_its_clock():
    lines = cache_folder._processor().splitlines()
    assert any(line.startswith(("flags", "Features")) for line in lines)
    assert not any("MHz" in line for line in lines)


def test_programs_that_were_not_used_for_longest_go_first(root, monkeypatch):
    place, older = wf.cache.folder(), root / "jax-0.8.0-jaxlib-0.8.0-0123456789ab"
    for folder in (place, older):
        folder.mkdir(parents=True, mode=0o700)
    root.chmod(0o700)
    ages = {place / "new-cache": 1, place / "read-cache": 2, older / "old-cache": 3, older / "oldest-cache": 4}
    for path, days in ages.items():
        path.write_bytes(b"x" * 100)
        os.utime(path, (1e9 - 86400 * days, 1e9 - 86400 * (9 if path.stem == "read-cache" else days)))
    (place / "cut-cache").touch()
    monkeypatch.setattr(wf.cache, "LARGEST", 250)
    wf.cache.enable()
    assert sorted(path.name for path in wf.cache.programs()) == ["new-cache", "read-cache"]
    assert wf.cache.size() == 200
