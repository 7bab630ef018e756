"""The dashboard room: importers, the history store, the statistics and the pages. Needs no GPU and no torch."""
