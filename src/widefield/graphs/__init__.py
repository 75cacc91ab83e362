"""Networks as graphs of four primitives: vectors, matrices between populations, local functions, averages."""
