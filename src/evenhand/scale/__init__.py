"""The same loop over an engine that others keep: Ray."""
