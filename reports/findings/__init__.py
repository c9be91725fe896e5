"""What each study found, in plain words and with its numbers: the first thing that report and README say."""
