"""What a study found: figures, tables, verdicts on the paper's claims, and the page that shows them."""

from pathlib import Path

#: The folder of all published reports.
PUBLISHED = Path(__file__).parent / "published"
