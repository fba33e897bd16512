"""Pages for people: charts, templates and their style, in files without external resources."""
