"""The same equations solved in other ways, a folder each. They check the engine and each other, and share no code."""
