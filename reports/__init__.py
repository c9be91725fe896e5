"""What a study found: figures, tables, verdicts on the paper's claims, and the page that shows them."""
