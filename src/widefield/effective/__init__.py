"""The effective theory of networks of finite width, at initialisation: order by order in 1/n (PDLT).

| question | names |
|---|---|
| how to initialise a network, and what to expect | `advise`, `Advice` |
| is an activation critical, and of which universality class? | `criticality`, `critical_point`, `critical_ratio` |
| which variances make signals grow or vanish? | `phase_diagram`, `critical_lines` |
| kernel, four-point vertex and corrections of many inputs | `flow`, `Flow` |
| the same of one input; of a scale-invariant activation, to all orders; at large depth | `single_flow`; \
`ScaleInvariant`, `scale_invariant_moments`; module `asymptotics` |
| the neural tangent kernel of many inputs: mean, fluctuations, hidden layers | `ntk_flow`, `NTKFlow` |
| the same of one input, thousands of layers; who contributes | `single_ntk`, `ntk_contributions`; module \
`tangent_asymptotics` |
| which gradients vanish, explode or scatter; rates that make layers equal | `gradient_moments`, `equivalent_rates` |
| beside a training input, between two of them; ReLU's cusp | `expansion_flow`, `beside_training_input`, \
`interpolation_weights`, `ntk_angle_flow`, `ntk_cusp`; module `robustness_asymptotics` |
| the first step in the last hidden layer; a network as a linear model | `first_hidden_update`; `network_features` |
| how the tangent kernel learns: dNTK, ddNTKs; of one input, thousands of layers; of one real network | \
`differential_flow`, `DifferentialFlow`; `single_differentials`, module `differential_asymptotics`; \
`network_differentials`, `forward_differentials` |
| what one real network will do in training | `network_course`, `NetworkCourse` |
| trained networks of finite width: mean and covariance of their outputs | `trained_ensemble`, `TrainedEnsemble`; \
of many samples `trained_outputs`, `TrainedOutputs`; \
their kernel `trained_ntk`, `stability_limit` |
| models that are quadratic in their parameters | `QuadraticModel`, `nearly_kernel_prediction`, `effective_kernel` |
| Bayesian inference at finite width; inside the network; in the space of parameters | `finite_posterior`, \
`FinitePosterior`, `DrawnPosterior`; `learned_representation`, `conditional_metric`; `most_probable` |
| which network do the data favour? | `evidence_map`, `posterior_odds`, `best_weight_variance` |
| do finite networks agree? | `check`, `Check` |

| question | modules |
|---|---|
| two inputs: how norms and angles flow | `two_inputs` |
| deep linear networks to all orders | `deep_linear` |
| third cumulant, inverse and determinant of the metric | `stochastic_metric` |
| entropy and mutual information of layers, optimal depth to width | `information`, `entropies`, `aspect_ratio` |
| residual networks | `residual`, `residual_inputs` |
| drawing finite networks, fast | `sampler`, `residual_sampler` |
| Wick contractions, cumulants, quartic actions, running couplings | `wick`, `cumulants`, `quartic`, `couplings` |
| averages over one input, and their derivatives | `single_input`, `layer_table`, `curvature`, `tilts` |
| averages over pairs and fours of inputs | `pair_moments`, `quadruples` of `widefield.gaussian` |
| figures | `plots` |

No function has the name of its module: `flow` lives in `vertex_flow.py`, `single_flow` in `single_input_flow.py`,
`criticality` in `universality.py`, so that each name means one thing whatever was imported before.
"""

from typing import TYPE_CHECKING

from ..base.lazy import load_when_used

if TYPE_CHECKING:
    from . import aspect_ratio as aspect_ratio
    from . import asymptotics as asymptotics
    from . import bayes_terms as bayes_terms
    from . import couplings as couplings
    from . import cumulants as cumulants
    from . import curvature as curvature
    from . import deep_linear as deep_linear
    from . import differential_asymptotics as differential_asymptotics
    from . import differential_sampler as differential_sampler
    from . import entropies as entropies
    from . import information as information
    from . import layer_table as layer_table
    from . import plots as plots
    from . import quartic as quartic
    from . import residual as residual
    from . import residual_inputs as residual_inputs
    from . import residual_sampler as residual_sampler
    from . import robustness_asymptotics as robustness_asymptotics
    from . import sampler as sampler
    from . import single_input as single_input
    from . import single_tangent as single_tangent
    from . import stochastic_metric as stochastic_metric
    from . import tangent_asymptotics as tangent_asymptotics
    from . import tangent_sampler as tangent_sampler
    from . import tilts as tilts
    from . import two_inputs as two_inputs
    from . import wick as wick
    from .advice import Advice as Advice
    from .advice import advise as advise
    from .agreement import Check as Check
    from .bayes_draws import DrawnPosterior as DrawnPosterior
    from .bayes_draws import drawn_posterior as drawn_posterior
    from .bayes_hidden import LearnedRepresentation as LearnedRepresentation
    from .bayes_hidden import conditional_metric as conditional_metric
    from .bayes_hidden import learned_representation as learned_representation
    from .bayes_hidden import naive_posterior as naive_posterior
    from .bayes_models import best_weight_variance as best_weight_variance
    from .bayes_models import evidence_map as evidence_map
    from .bayes_models import posterior_odds as posterior_odds
    from .bayes_parameters import Parameters as Parameters
    from .bayes_parameters import log_likelihood as log_likelihood
    from .bayes_parameters import log_prior as log_prior
    from .bayes_parameters import most_probable as most_probable
    from .bayes_parameters import regularisers as regularisers
    from .bayes_posterior import FinitePosterior as FinitePosterior
    from .bayes_posterior import finite_posterior as finite_posterior
    from .bayes_posterior import inferred as inferred
    from .critical_points import Criticality as Criticality
    from .critical_points import CriticalPoint as CriticalPoint
    from .critical_points import NotCritical as NotCritical
    from .differential_asymptotics import differential_exponents as differential_exponents
    from .differential_result import DifferentialFlow as DifferentialFlow
    from .differentials_of_networks import NetworkDifferentials as NetworkDifferentials
    from .differentials_of_networks import network_differentials as network_differentials
    from .first_step import HiddenUpdate as HiddenUpdate
    from .first_step import first_hidden_update as first_hidden_update
    from .flow_of_differentials import differential_flow as differential_flow
    from .gradients_of_layers import GradientMoments as GradientMoments
    from .gradients_of_layers import gradient_covariances as gradient_covariances
    from .gradients_of_layers import gradient_moments as gradient_moments
    from .input_expansion import Expansion as Expansion
    from .interpolation import beside_training_input as beside_training_input
    from .interpolation import interpolation_weights as interpolation_weights
    from .interpolation import kinked_interpolation as kinked_interpolation
    from .interpolation import weights_at as weights_at
    from .layerwise_differentials import forward_differentials as forward_differentials
    from .monte_carlo import check as check
    from .nearby_inputs import expansion_at as expansion_at
    from .nearby_inputs import expansion_flow as expansion_flow
    from .ntk_after_training import TrainedNTK as TrainedNTK
    from .ntk_after_training import stability_limit as stability_limit
    from .ntk_after_training import trained_ntk as trained_ntk
    from .one_network import NetworkCourse as NetworkCourse
    from .one_network import network_course as network_course
    from .parameter_features import NetworkFeatures as NetworkFeatures
    from .parameter_features import network_features as network_features
    from .parameter_features import weight_decay_pull as weight_decay_pull
    from .phases import critical_lines as critical_lines
    from .phases import phase_diagram as phase_diagram
    from .quadratic_models import QuadraticModel as QuadraticModel
    from .quadratic_models import effective_kernel as effective_kernel
    from .quadratic_models import nearly_kernel_prediction as nearly_kernel_prediction
    from .single_input_differentials import single_differentials as single_differentials
    from .single_input_flow import ScaleInvariant as ScaleInvariant
    from .single_input_flow import scale_invariant_moments as scale_invariant_moments
    from .single_input_flow import single_flow as single_flow
    from .single_tangent import ntk_contributions as ntk_contributions
    from .single_tangent import single_ntk as single_ntk
    from .tangent_angles import ntk_angle_flow as ntk_angle_flow
    from .tangent_angles import ntk_cusp as ntk_cusp
    from .tangent_asymptotics import equivalent_rates as equivalent_rates
    from .tangent_asymptotics import ntk_exponents as ntk_exponents
    from .tangent_flow import ntk_flow as ntk_flow
    from .tangent_result import NTKFlow as NTKFlow
    from .trained_networks import TrainedEnsemble as TrainedEnsemble
    from .trained_networks import trained_ensemble as trained_ensemble
    from .trained_samples import TrainedOutputs as TrainedOutputs
    from .trained_samples import trained_outputs as trained_outputs
    from .universality import critical_point as critical_point
    from .universality import critical_ratio as critical_ratio
    from .universality import criticality as criticality
    from .vertex_flow import Flow as Flow
    from .vertex_flow import flow as flow
else:
    __getattr__, __dir__, __all__ = load_when_used(__name__)
