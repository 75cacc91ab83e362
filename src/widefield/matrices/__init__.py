"""Random matrices between populations of neurons, of finite and of infinite size."""
