"""What everything stands on: errors, checks, descriptions, files, sessions, results, the look of figures and tables."""
