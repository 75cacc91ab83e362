"""What is asked: network, data, loss, learning rule, optimiser, record; and what a theory is."""
