"""Leading order in the richness gamma_0: fields and kernels as polynomials, with coefficients that are averages.

| file | job |
|---|---|
| `order.py` | what a correction of order gamma_0^2 must be able to do |
| `static.py` | averages over the initial network: how strongly fields respond to what is learned |
| `nonlinear.py` | any smooth activation, sampled |
| `linear.py` | deep linear networks, in closed form |
| `outputs.py` | the outputs that follow |
"""
