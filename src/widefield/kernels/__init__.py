"""Kernels of networks, and predictions with a fixed kernel.

| question | answer |
|---|---|
| NNGP and NTK of a network of infinite width, of any learning rule | `StaticKernel(network, rule)(x, x2)` |
| the kernels of its layers; as functions of an angle | `StaticKernel.layers`, `StaticKernel.by_angle` |
| Bayesian inference with a kernel | `posterior`, `log_evidence` |
| an ensemble of lazily trained networks | `trained` |
"""

from .prediction import Blocks, Prediction, log_evidence, posterior, trained
from .static import Kernels, LayerKernels, StaticKernel

__all__ = [
    "Blocks",
    "Kernels",
    "LayerKernels",
    "Prediction",
    "StaticKernel",
    "log_evidence",
    "posterior",
    "trained",
]
