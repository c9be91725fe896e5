"""Everything that README and documentation take from the code and from the published studies."""
