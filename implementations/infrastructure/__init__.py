"""What every layer stands on: files, errors, provenance, memory and progress."""
