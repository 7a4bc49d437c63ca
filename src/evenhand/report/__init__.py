"""A run folder in; tables, charts, pages and exports out. Nothing is computed here."""
