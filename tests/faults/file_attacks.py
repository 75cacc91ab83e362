"""Damaged and hostile NetCDF files."""

import random
import zlib

import h5py
import numpy as np
from tally import Tally, Wrong

import widefield as wf
from widefield.base.seal import sealed, unsealed


def answer():
    """A small answer to damage."""
    data = wf.data.sphere(samples=3, dimension=4, seed=0)
    problem = wf.Problem(wf.MLP(2, "tanh"), data, optimiser=wf.SGD(0.1, 3))
    return wf.solve(problem, wf.FiniteWidth(3, seeds=2), progress=False)


def mutated(content, rng):
    """The bytes with some of them flipped, lost, doubled or exchanged."""
    made, kind = bytearray(content), rng.randrange(6)
    place = rng.randrange(len(made))
    if kind <= 2:
        for _ in range((1, 4, 40)[kind]):
            made[rng.randrange(len(made))] ^= 1 << rng.randrange(8)
    elif kind == 3:
        del made[place : place + rng.choice((1, 8, 512, 10**9))]
    elif kind == 4:
        made[place:place] = bytes(rng.randrange(256) for _ in range(rng.choice((1, 8, 512))))
    else:
        other = rng.randrange(len(made))
        made[place : place + 64], made[other : other + 64] = made[other : other + 64], made[place : place + 64]
    return bytes(made)


def attack(path, count, seed=0):
    """Load every mutant: it is refused, or the same."""
    tally, rng, original = Tally("damaged files"), random.Random(seed), answer()
    original.save(path)
    content = path.read_bytes()
    for number in range(count):
        made = mutated(content, rng)
        path.write_bytes(made)
        with tally.attack(f"mutant {number}"):
            if not wf.load(path).data.identical(original.data) and made != content:
                raise Wrong("other numbers were read")
    return tally


def attack_unsealed(path, count, seed=0):
    """The same with files as version 0.1.0 wrote them: they may be read, but nothing may crash or hang."""
    tally, rng = Tally("damaged files without a seal"), random.Random(seed)
    answer().save(path)
    with h5py.File(path, "r+") as opened:
        opened.attrs["schema"] = 1
    content = unsealed(path.read_bytes())[0]
    for number in range(count):
        path.write_bytes(mutated(content, rng))
        with tally.attack(f"mutant {number}"):
            str(wf.load(path))
    return tally


def hostile(folder):
    """Files that are made to do harm, by name; each is sealed, since anybody can compute a digest."""
    secret = folder / "secret.bin"
    secret.write_bytes(b"secret" * 100)
    with h5py.File(folder / "other.h5", "w") as other:
        other["x"] = np.ones(5)
    base = folder / "base.nc"
    answer().save(base)
    content = unsealed(base.read_bytes())[0]
    made = {}
    for name, change in _CHANGES.items():
        path = folder / f"{len(made)}.nc"
        path.write_bytes(content)
        with h5py.File(path, "r+") as opened:
            change(opened, folder)
        path.write_bytes(sealed(path.read_bytes()))
        made[name] = path
    return made


def _replaced(name, **settings):
    def change(opened, folder):
        del opened[name]
        opened.create_dataset(name, **settings)

    return change


def _attribute(name, value):
    return lambda opened, folder: opened.attrs.__setitem__(name, value)


def _on(variable, **attributes):
    return lambda opened, folder: opened[variable].attrs.update(attributes)


def _without(name):
    return lambda opened, folder: opened.attrs.__delitem__(name)


def _link(kind):
    def change(opened, folder):
        opened["loss2"] = kind(folder)

    return change


def _external(opened, folder):
    opened.create_dataset("loss2", (600,), "u1", external=[(str(folder / "secret.bin"), 0, 600)])


def _virtual(opened, folder):
    layout = h5py.VirtualLayout(shape=(5,), dtype="f8")
    layout[:] = h5py.VirtualSource(str(folder / "other.h5"), "x", shape=(5,))
    opened.create_virtual_dataset("loss2", layout)


def _bomb(opened, folder):
    opened.create_dataset("loss2", (2**40,), "f8", chunks=(2**20,), compression="gzip")


def _zeros(opened, folder):
    opened.create_dataset("loss2", (2**37,), "u1", chunks=(2**24,), compression="gzip")


def _text(name, text):
    def change(opened, folder):
        del opened[name]
        opened.create_dataset(name, data=text, dtype=h5py.string_dtype())

    return change


_ESCAPE = "\x1b]0;owned\x07\x1b[31m[bold]x[/bold]"
_CHANGES = {
    "external link": _link(lambda folder: h5py.ExternalLink(str(folder / "other.h5"), "/x")),
    "external link to nothing": _link(lambda folder: h5py.ExternalLink("/dev/zero", "/x")),
    "soft link": _link(lambda folder: h5py.SoftLink("/loss")),
    "soft link to itself": _link(lambda folder: h5py.SoftLink("/loss2")),
    "external storage": _external,
    "virtual data set": _virtual,
    "bomb of 8 TiB": _bomb,
    "bomb of 128 GiB": _zeros,
    "group": lambda opened, folder: opened.create_group("g/h/i"),
    "loop of groups": lambda opened, folder: opened.__setitem__("g", opened["/"]),
    "schema is an array": _attribute("schema", np.arange(3)),
    "schema is a text": _attribute("schema", "two"),
    "schema is too new": _attribute("schema", 99),
    "schema is a fraction": _attribute("schema", 1.5),
    "schema is missing": _without("schema"),
    "format is a number": _attribute("format", 3),
    "format of something else": _attribute("format", "widefield [red]spin\x1b[31m glass"),
    "no seconds": _without("seconds"),
    "no status": _without("status"),
    "seconds are a text": _attribute("seconds", "many"),
    "seconds are an array": _attribute("seconds", np.ones(3)),
    "status is a number": _attribute("status", 7),
    "escape codes in the status": _attribute("status", _ESCAPE),
    "escape codes in the message": _attribute("message", _ESCAPE),
    "markup in the message": _attribute("message", "[link=file:///etc/passwd]x[/link] [/] [bold"),
    "units": _on("loss", units="days since 1970-01-01"),
    "scale and offset": _on("loss", scale_factor=1e3, add_offset=7.0),
    "missing values": _on("loss", missing_value=0.5, _FillValue=0.5),
    "text for losses": _text("loss", "a"),
    "other shape": _replaced("loss", data=np.ones(7)),
    "numbers of another kind": _replaced("loss", data=np.ones((2, 4), dtype="c16")),
    "compound numbers": _replaced("loss", data=np.zeros(2, dtype=[("a", "f8"), ("b", "i4")])),
    "no losses": lambda opened, folder: opened.__delitem__("loss"),
    "no outputs": lambda opened, folder: opened.__delitem__("outputs"),
    "no steps": lambda opened, folder: opened.__delitem__("step"),
    "other problem": _text("_problem", "[network]\nkind='mlp'\n"),
    "problem of another depth": lambda opened, folder: _edit(opened, "hidden_layers = 2", "hidden_layers = 5"),
    "problem of other samples": lambda opened, folder: _edit(opened, "samples = 3", "samples = 9"),
    "problem of very many samples": lambda opened, folder: _edit(opened, "samples = 3", "samples = 900000000000"),
    "problem that is nested": _text("_problem", "a = " + "[" * 10**5 + "]" * 10**5),
    "theory with escape codes": _text("_theory", f"kind = '{zlib.crc32(b'x')}\t'"),
    "theory of nothing": _text("_theory", ""),
    "a very long name": lambda opened, folder: opened.__setitem__("n" * 5000, 1.0),
    "a name with escape codes": lambda opened, folder: opened.__setitem__("\x1b[31mx", 1.0),
}


def _edit(opened, old, new):
    text = opened["_problem"].asstr()[()]
    assert old in text
    _text("_problem", text.replace(old, new))(opened, None)
