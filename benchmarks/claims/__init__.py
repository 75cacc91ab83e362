"""Claims about speed: what is compared, how ratios are measured, and what `benchmarks/floors.toml` demands of them."""
