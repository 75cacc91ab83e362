"""Own data: one call that asks all questions, within minutes, and writes a report. Code imports from the modules."""
