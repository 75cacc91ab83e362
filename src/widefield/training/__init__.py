"""The one training program: run, measured, stopped, resumed."""
