"""Networks with one hidden layer, exactly. Public names are in `widefield.two_layer`.

| files | job |
|---|---|
| `whitened.py`, `deep_feedback.py` | closed forms, equations of one or two variables |
| `flow.py` | linear networks on any data: equations of second moments |
| `particles.py`, `neurons.py` | any activation and rule: neurons on a grid or sampled |
| `recording.py` | what is recorded |
"""
