"""Names that are imported when they are used."""

import subprocess
import sys

import pytest

PACKAGE = '''"""A package."""
from typing import TYPE_CHECKING
from widefield.base.lazy import load_when_used
if TYPE_CHECKING:
    from . import inner as inner
    from .inner import deep as depths
    from .inner.deep import here as there
else:
    __getattr__, __dir__, __all__ = load_when_used(__name__)
'''


@pytest.fixture
def package(tmp_path, monkeypatch):
    folder = tmp_path / "lazy_package"
    (folder / "inner").mkdir(parents=True)
    (folder / "__init__.py").write_text(PACKAGE)
    (folder / "inner" / "__init__.py").write_text("")
    (folder / "inner" / "deep.py").write_text("here = object()")
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    for name in [name for name in sys.modules if name.startswith("lazy_package")]:
        del sys.modules[name]


def test_names_are_imported_once_when_they_are_used(package):
    import lazy_package

    assert "lazy_package.inner" not in sys.modules
    assert dir(lazy_package) == lazy_package.__all__ == ["depths", "inner", "there"]
    first = lazy_package.there
    assert first is sys.modules["lazy_package.inner.deep"].here
    assert lazy_package.there is first
    assert lazy_package.inner is sys.modules["lazy_package.inner"]
    assert lazy_package.depths is sys.modules["lazy_package.inner.deep"]
    assert dir(lazy_package) == ["depths", "inner", "there"]


def test_star_import(package):
    found = {}
    exec("from lazy_package import *", found)
    assert {"depths", "inner", "there"} <= set(found)


def test_other_lines_under_type_checking_are_refused(package):
    text = PACKAGE.replace("    from . import inner as inner", "    from os import path as path")
    (package / "__init__.py").write_text(text)
    with pytest.raises(ImportError, match="line 5: public names come from"):
        import lazy_package  # noqa: F401


def test_without_source_it_says_what_is_missing(package):
    import py_compile

    py_compile.compile(str(package / "__init__.py"), cfile=str(package / "__init__.pyc"))
    (package / "__init__.py").unlink()
    with pytest.raises(ImportError, match="install it with its"):
        import lazy_package  # noqa: F401


def test_a_package_in_a_zip_file(package, tmp_path):
    import shutil

    archive = shutil.make_archive(str(tmp_path / "all"), "zip", package.parent, package.name)
    code = f"import sys; sys.path.insert(0, {archive!r}); import lazy_package; print(lazy_package.there)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "<object object" in done.stdout
