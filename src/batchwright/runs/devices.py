"""Which device of JAX a process computes on."""

from __future__ import annotations

from batchwright.core.errors import UserError


def use_device(name: str) -> None:
    """Puts networks, updates, replay buffers and compiled environments of this process on `cpu`, `gpu` or `gpu:1`.

    Without it JAX takes the first device of the fastest kind. Results on two devices of one kind are equal to the bit.
    """
    import jax

    kind, _, number = name.partition(":")
    try:
        found = jax.devices(kind)
    except RuntimeError:
        found = []
    place = int(number) if number.isascii() and number.isdigit() else -1 if number else 0
    if not 0 <= place < len(found):
        here = [f"{device.platform}:{device.id}" for device in (*jax.devices(), *jax.devices("cpu"))]
        raise UserError(f"there is no device {name!r} here.", [f"--device {device}" for device in dict.fromkeys(here)])
    jax.config.update("jax_default_device", found[place])  # type: ignore[no-untyped-call]
