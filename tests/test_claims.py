"""Claims about speed are measured and judged as `benchmarks/floors.toml` says: made-up times and tiny sizes."""

import itertools
import math
import sys
from pathlib import Path

import numpy as np
import pytest

import widefield as wf

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

import speed_claims
from claims import brute_force, children, floors, known_truths, problems, quantities, truth_files, truths
from claims.ensembles import Ensemble
from claims.floors import Floor, Verdict, WrongFloors
from claims.intervals import Interval, median_interval
from claims.measuring import Claim, measure


def floor(kind="floor", number=3.0, pairs=9):
    return Floor("made-up", "One against another.", kind, number, pairs)


@pytest.mark.parametrize(("count", "rank"), [(6, 1), (9, 2), (11, 2), (12, 3), (16, 4)])
def test_interval_covers_the_median_as_often_as_it_says(count, rank):
    interval = median_interval([float(value) for value in reversed(range(1, count + 1))])
    assert (interval.low, interval.high) == (rank, count + 1 - rank)
    below = np.array([sum(signs) for signs in itertools.product((0, 1), repeat=count)])  # of values below the median
    covered = lambda k: np.mean((below >= k) & (below <= count - k))  # noqa: E731
    assert interval.coverage == pytest.approx(covered(rank), abs=1e-12)
    assert covered(rank) >= 0.95 > covered(rank + 1)


def test_few_pairs_give_their_range_and_say_how_little_it_covers():
    assert median_interval([2.0, 1.0, 4.0]) == Interval(1.0, 4.0, 0.75)
    assert median_interval([2.0]) == Interval(2.0, 2.0, 0.0)


@pytest.mark.parametrize(
    ("kind", "low", "high", "verdict"),
    [
        ("floor", 3.0, 9.0, Verdict.HOLDS),
        ("floor", 2.9, 9.0, Verdict.UNDECIDED),
        ("floor", 1.0, 3.0, Verdict.UNDECIDED),
        ("floor", 1.0, 2.9, Verdict.FAILS),
        ("ceiling", 0.1, 3.0, Verdict.HOLDS),
        ("ceiling", 2.0, 3.1, Verdict.UNDECIDED),
        ("ceiling", 3.1, 9.0, Verdict.FAILS),
        ("within", 0.4, 2.9, Verdict.HOLDS),
        ("within", 0.3, 2.9, Verdict.UNDECIDED),
        ("within", 0.1, 0.3, Verdict.FAILS),
        ("within", 3.1, 9.0, Verdict.FAILS),
    ],
)
def test_verdicts(kind, low, high, verdict):
    assert floor(kind).verdict(Interval(low, high, 0.96)) is verdict


def test_pairs_are_interleaved_and_the_ratio_is_that_of_pairs():
    """On a machine that gets slower and slower the medians of both costs have another ratio than the pairs."""
    calls, clock = [], itertools.count()

    def cost(name, seconds):
        def run():
            calls.append(name)
            return seconds * 2.0 ** (next(clock) // 2)

        return run

    measured = measure(Claim(cost("A", 1.0), cost("B", 4.0)), floor(pairs=5))
    assert "".join(calls) == "ABBAABBAAB"
    assert measured.ratio == 4.0
    assert measured.interval[:2] == (4.0, 4.0)
    assert measured.verdict is Verdict.HOLDS
    assert measure(Claim(cost("A", 1.0), cost("B", 4.0)), floor("ceiling", pairs=4)).ratio == 0.25


def test_every_claim_has_a_floor_and_every_floor_a_claim():
    floors.check_complete(floors.read(), speed_claims.CLAIMS)
    with pytest.raises(WrongFloors, match=r"claims without a floor.*: new"):
        floors.check_complete(["old"], ["new", "old"])
    with pytest.raises(WrongFloors, match="without a claim: old"):
        floors.check_complete(["new", "old"], ["new"])


@pytest.mark.parametrize(
    "table",
    ["floor = 2\nceiling = 3\npairs = 6", "pairs = 6", "floor = 2", "floor = 0\npairs = 6", "within = 0.5\npairs = 6"],
)
def test_floors_that_make_no_sense(table, tmp_path):
    path = tmp_path / "floors.toml"
    path.write_text(f'[one]\nclaim = "This."\n{table}\n')
    with pytest.raises(WrongFloors, match="one"):
        floors.read(path)


@pytest.mark.parametrize(
    ("theirs", "code", "verdict"),
    [((9.0, 9.0), 0, "holds"), ((9.0, 1.0), 0, "not decided"), ((1.0, 1.0), 1, "fails"), ((), 1, "not measured")],
)
def test_exit_code(theirs, code, verdict, tmp_path, monkeypatch):
    times = itertools.cycle(theirs)  # a claim without times cannot be measured
    monkeypatch.setattr(speed_claims, "CLAIMS", {"made-up": lambda sizes: Claim(lambda: 1.0, lambda: next(times))})
    (tmp_path / "floors.toml").write_text('[made-up]\nclaim = "One | other."\nfloor = 3.0\npairs = 6\n')
    table = tmp_path / "table.md"
    options = ["--floors", str(tmp_path / "floors.toml"), "--only", "made-up", "--markdown", str(table)]
    assert speed_claims.main(options) == code
    lines = table.read_text().splitlines()
    assert lines[0] == "| claim | ours | theirs | ratio | interval | promised | verdict |"
    assert lines[2].startswith("| made-up | ")
    assert lines[2].split(" | ")[-1].startswith(verdict)
    assert all(line.count("|") == 8 for line in lines[:3])


def test_a_report_that_cannot_be_measured_is_a_failure_that_leaves_the_table(tmp_path, monkeypatch):
    table = tmp_path / "table.md"
    monkeypatch.setattr(speed_claims, "REPORTS", {"good": lambda sizes: "3 s", "bad": lambda sizes: 1 / 0})
    assert speed_claims.main(["--only", "good"]) == 0
    assert speed_claims.main(["--only", "good", "bad", "--markdown", str(table)]) == 1
    assert "- good: 3 s\n- bad: not measured: ZeroDivisionError" in table.read_text()


def test_networks_needed():
    """sqrt(bias^2 + spread^2 / n) = goal in the quantity that needs most."""
    goal, bias = {"a": 0.05, "b": 0.02}, {"a": 0.03, "b": 0.0}
    assert brute_force.networks_needed(goal, bias, {"a": 0.4, "b": 0.01}) == 100
    assert brute_force.networks_needed(goal, bias, {"a": 0.001, "b": 0.3}) == 225
    assert math.isinf(brute_force.networks_needed({"a": 0.03, "b": 1.0}, bias, {"a": 0.1, "b": 0.1}))


def expansion(small_problem, count=400, noise=0.0):
    """Ensembles whose means are 1 + a / N + b / N^2."""
    rng, ensembles = np.random.default_rng(0), {}
    for width in (8, 16, 32):
        ensembles[width] = Ensemble(width)
        for _ in range(4):
            values = 1 + 0.8 / width + 2.56 / width**2 + noise * rng.normal(size=(count // 4, 5)) / math.sqrt(width)
            ensembles[width].add({"outputs": values})
    return truths.from_ensembles(small_problem, ensembles)


def test_truths_are_extrapolated_and_know_their_error(small_problem):
    truth = expansion(small_problem)
    remainder = 2.56 / 16**2
    np.testing.assert_allclose(truth.values["outputs"], 1 - remainder, rtol=1e-12)
    assert truth.own_error["outputs"] == pytest.approx(remainder / (1 - remainder), rel=1e-6)
    bias = (0.8 / 16 + 2.56 / 16**2 + remainder) / (1 - remainder)
    assert truth.bias_of(16)["outputs"] == pytest.approx(bias, rel=1e-6)
    assert truth.bias_of(64)["outputs"] == pytest.approx(truth.bias_of(32)["outputs"] / 2)
    with pytest.raises(truths.TruthNotGoodEnough, match=r"more than 0\.35"):
        truth.check_good_enough(2.8 * remainder)
    assert "more than a fifth" in truth.check_good_enough(4.9 * remainder)
    assert not truth.check_good_enough(5.1 * remainder)


def test_noise_of_networks_is_no_bias_but_an_error_of_the_truth(small_problem):
    truth = expansion(small_problem, count=4000, noise=2.0)
    assert truth.spread_of(16)["outputs"] == pytest.approx(0.5, rel=0.05)
    assert truth.spread_of(128)["outputs"] == pytest.approx(2 / math.sqrt(128), rel=0.05)
    statistical = math.sqrt((16 / 9 / 32 + 1 / 9 / 8) * 2.0**2 / 4000)
    assert truth.own_error["outputs"] == pytest.approx(statistical, rel=0.7)
    assert truth.own_error["outputs"] > 0.9 * statistical
    assert truth.networks == {8: 4000, 16: 4000, 32: 4000}


def test_truths_are_read_as_written_and_for_their_problem_only(small_problem, tmp_path):
    truth, path = expansion(small_problem, noise=1.0), truth_files.path_of("made-up", tmp_path)
    with pytest.raises(truths.TruthNotGoodEnough, match="--truths made-up"):
        truth_files.load(small_problem, path)
    truth_files.save(truth, path)
    again = truth_files.load(small_problem, path)
    np.testing.assert_allclose(again.values["outputs"], truth.values["outputs"], rtol=1e-6)
    assert (again.own_error, again.bias, again.spread) == (truth.own_error, truth.bias, truth.spread)
    with pytest.raises(truths.TruthNotGoodEnough, match="another problem"):
        truth_files.load(problems.at_rate(small_problem, 0.07), path)


def test_quantities_of_networks_and_answers_agree(small_problem):
    """Kernels are cut to the samples and steps of the truth, and the worst layer stands for all."""
    answer = wf.solve(small_problem, wf.FiniteWidth(8, seeds=3), progress=False)
    record = wf.Record(steps=(0, 6, 12), samples=2, neurons=0)
    one, each = quantities.of_answer(answer, record), quantities.of_networks(answer, record)
    names = ["outputs", *(f"{kind}_kernel {layer}" for kind in ("feature", "gradient") for layer in (1, 2))]
    assert list(one) == names
    assert one["feature_kernel 2"].shape == (3, 2, 2)
    expected = answer.data["feature_kernel"].values.mean(axis=0)[[0, 2, 4], 1, :2, :2]
    np.testing.assert_allclose(one["feature_kernel 2"], expected)
    for name in names:
        np.testing.assert_allclose(each[name].mean(axis=0), one[name])
    errors = quantities.relative_errors({name: 1.1 * value for name, value in one.items()}, one)
    assert errors == pytest.approx(dict.fromkeys(names, 0.1))
    worst = quantities.worst_of_each_name({"outputs": 1.0, "feature_kernel 1": 2.0, "feature_kernel 2": 3.0})
    assert worst == {"outputs": 1.0, "feature_kernel 1": 3.0, "feature_kernel 2": 3.0}


def test_caches_of_child_processes(monkeypatch, tmp_path):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "elsewhere")
    bare, cached = children.environment(None), children.environment(tmp_path)
    assert "JAX_COMPILATION_CACHE_DIR" not in bare
    assert bare["WIDEFIELD_CACHE"] == "off"
    assert cached["JAX_COMPILATION_CACHE_DIR"] == str(tmp_path)
    assert "WIDEFIELD_CACHE" not in cached


def test_a_claim_against_networks_in_tiny_sizes(tmp_path):
    table = tmp_path / "table.md"
    assert speed_claims.main(["--quick", "--only", "default-networks", "--markdown", str(table)]) == 0
    text = table.read_text()
    assert "| not judged |" in text
    assert "cheapest in hindsight" in text


def test_truths_that_are_kept_are_small_and_of_the_problems_of_the_claims():
    for path in truth_files.FOLDER.glob("*.npz"):
        known = known_truths.KNOWN[path.stem]
        truth = truth_files.load(known.problem(problems.FULL), path)
        assert tuple(sorted(truth.networks)) == known.effort(problems.FULL).widths
        assert max(truth.own_error.values()) < 0.01
        assert path.stat().st_size < 300_000


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({*speed_claims.CLAIMS, *speed_claims.REPORTS} - {"default-networks"}))
def test_claims_in_tiny_sizes(name):
    assert speed_claims.main(["--quick", "--only", name]) == 0
