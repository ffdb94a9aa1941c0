"""Networks as pairs of pure functions, the heads that turn their output into actions, and normalisers."""
