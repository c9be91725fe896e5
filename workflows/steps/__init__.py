"""One module a rule: read files, call the library, write files."""
