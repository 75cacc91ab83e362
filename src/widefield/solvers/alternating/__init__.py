"""The published solver of the infinite-width equations, alternating Monte Carlo, for every learning rule.

An independent check of `InfiniteWidth`, with which it shares no dynamics; `AlternatingMonteCarlo` makes it a theory.
"""
