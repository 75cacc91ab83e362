"""Effective theory."""
