"""The trees of arrays that pass between rooms."""
