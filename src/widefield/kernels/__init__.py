"""Kernels of networks, and predictions with a fixed kernel.

| question | answer |
|---|---|
| NNGP and NTK of a network of infinite width, of any learning rule | `StaticKernel(network, rule)(x, x2)` |
| the kernels of its layers; as functions of an angle | `StaticKernel.layers`, `StaticKernel.by_angle` |
| Bayesian inference with a kernel | `posterior`, `log_evidence` |
| an ensemble of lazily trained networks | `trained` |
| kernels of a real network; of any function f(params, x) in jax | `network_kernels`, `ntk_of_function` |
| how kernels of real networks scatter around their limits | `kernel_fluctuations` |
"""

from .empirical import NetworkKernels, network_kernels
from .fluctuations import KernelFluctuations, kernel_fluctuations, saddle_point
from .functions import ntk_of_function
from .prediction import Blocks, Prediction, log_evidence, posterior, trained
from .static import Kernels, LayerKernels, StaticKernel

__all__ = [
    "Blocks",
    "KernelFluctuations",
    "Kernels",
    "LayerKernels",
    "NetworkKernels",
    "Prediction",
    "StaticKernel",
    "kernel_fluctuations",
    "log_evidence",
    "network_kernels",
    "ntk_of_function",
    "posterior",
    "saddle_point",
    "trained",
]
