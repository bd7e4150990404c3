"""`groundwatch drift`: two samples of queries compared by hand."""
