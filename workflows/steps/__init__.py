"""One module per rule: read files, call the library, write files."""
