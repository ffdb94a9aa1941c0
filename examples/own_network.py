"""A network of your own: two pure functions over any tree of arrays."""

import sys

import jax
import jax.numpy as jnp

import batchwright


def residual_network(inputs: batchwright.Inputs, raw_size: int, num_values: int) -> batchwright.Network:
    """One shared hidden layer with a residual block; `raw_size` outputs for the action, `num_values` values."""
    width = 64

    def init(key: jax.Array) -> dict[str, jax.Array]:
        shapes = {"in": (inputs.vector_size, width), "block": (width, width), "out": (width, raw_size + num_values)}
        keys = jax.random.split(key, len(shapes))
        make = jax.nn.initializers.orthogonal()
        return {name: make(k, shape, jnp.float32) for k, (name, shape) in zip(keys, shapes.items(), strict=True)}

    def apply(params: dict[str, jax.Array], x: jax.Array) -> tuple[jax.Array, jax.Array]:
        h = jnp.tanh(x @ params["in"])
        h = h + jnp.tanh(h @ params["block"])
        out = 0.1 * (h @ params["out"])
        return out[..., :raw_size], out[..., raw_size:]

    return batchwright.Network(init, apply)


def main(total_steps: int = 50_000) -> None:
    result = batchwright.train("CartPole-v1", network=residual_network, total_steps=total_steps, quiet=True)
    print(f"evaluation: mean {result.evaluation['mean']:.1f}")
    policy = batchwright.load(result.run_dir, network=residual_network)
    print("an action:", policy([0.0, 0.0, 0.1, 0.0]))


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))
