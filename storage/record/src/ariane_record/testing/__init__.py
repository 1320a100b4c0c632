"""For tests of records: strategies of Hypothesis, and an encoder to compare others with."""
