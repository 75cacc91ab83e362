"""`widefield advise`: how to initialise a network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.table import Table

from ..base import tables
from .options import Plot
from .terminal import check_figure, console, save_figure

if TYPE_CHECKING:
    from ..effective.advice import Advice


def advise(
    activation: Annotated[str, typer.Option(help="Name of an activation: relu, gelu, tanh, ...")],
    depth: Annotated[int, typer.Option(help="Layers of weights.")],
    width: Annotated[int, typer.Option(help="Neurons of a hidden layer.")],
    outputs: Annotated[int, typer.Option(help="Neurons of the last layer.")] = 10,
    residual: Annotated[
        bool, typer.Option("--residual", help="With skip connections, as strong as suits depth / width.")
    ] = False,
    plot: Plot = None,
) -> None:
    """How to initialise a network, and what its depth, width and activation will do to signals and gradients."""
    from ..effective.advice import advise as ask

    check_figure(plot, overwrite=True)
    advice = ask(activation, depth, width, outputs=outputs, residual=residual)
    _print_advice(advice)
    if plot is not None:
        from ..effective import plots

        save_figure(plots.advice(advice), plot)


def _print_advice(advice: Advice) -> None:
    kind = f"{advice.point.universality_class} class, {advice.point.stability}"
    console.print(f"[bold]{advice.activation}[/]: {kind}", highlight=False)
    console.print(_variances(advice))
    if advice.depth > 1:
        console.print(_expectations(advice))
    console.print(advice.verdict, highlight=False)
    console.print("\n[bold]Variances of all layers[/], inputs scaled to mean square 1", highlight=False)
    console.print(advice.variances, highlight=False, markup=False, soft_wrap=True)
    for framework, code in advice.snippets().items():
        console.print(f"\n[bold]{framework}[/]", highlight=False)
        rest = code.removeprefix(advice.variances + "\n")
        console.print(rest, highlight=False, markup=False, soft_wrap=True)
    rates = advice.rates()
    if rates is None:
        return
    from ..effective.rate_snippets import rate_lists

    console.print(
        "\n[bold]Learning rates with which all layers learn alike[/], relative to one `rate`", highlight=False
    )
    console.print(rate_lists(*rates), highlight=False, markup=False, soft_wrap=True)
    for framework, code in advice.rate_snippets().items():
        console.print(f"\n[bold]{framework}, optimiser[/]", highlight=False)
        console.print(code.removeprefix(rate_lists(*rates) + "\n"), highlight=False, markup=False, soft_wrap=True)


def _variances(advice: Advice) -> Table:
    table = tables.table(("layer", "weights", "biases"), words=3)
    rows = (("first", advice.first, 0), ("hidden", advice.hidden, 2), ("last", advice.output, 1))
    for name, layer, below in rows:
        if advice.depth > below:
            biases = f"N(0, {layer.bias_variance:.10g})" if layer.bias_variance else "0"
            table.add_row(name, f"N(0, {layer.weight_variance:.10g} / fan-in)", biases)
    return table


def _expectations(advice: Advice) -> Table:
    table = Table(box=box.SIMPLE, show_header=False)
    table.add_row("skip connections", f"times {advice.skip:.10g}" if advice.skip else "none")
    table.add_row("mean square signal, last over first", f"{advice.kernels[-1] / advice.kernels[0]:.4g}")
    table.add_row("mean square gradient, first over last", f"{advice.gradients[0]:.4g}")
    table.add_row("scatter of the output variance", f"{advice.kernel_deviation[-1]:.1%} from seed to seed")
    table.add_row("depth / width", f"{advice.aspect_ratio:.3g}; optimal {advice.optimal_aspect_ratio:.3g}")
    return table
