"""Isaac Lab's shipped rl_games configs: facts read from its repository (commit f4aa17f, March 2026).

horizon_length, minibatch_size, central value minibatch_size or None, seq_length as written or None, whether a network
has memory, and num_envs of the task's scene.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Shipped(NamedTuple):
    name: str
    horizon: int
    minibatch: int
    central: int | None
    seq_length: int | None
    memory: bool
    tuned: int

    def config(self) -> dict[str, Any]:
        """The parts of the file that matter here, as Runner.load gets them."""
        config: dict[str, Any] = {
            "num_actors": -1,
            "horizon_length": self.horizon,
            "minibatch_size": self.minibatch,
            "mini_epochs": 5,
        }
        if self.seq_length is not None:
            config["seq_length"] = self.seq_length
        network: dict[str, Any] = {"rnn": {"name": "lstm"}} if self.memory else {}
        if self.central is not None:
            config["central_value_config"] = {"minibatch_size": self.central, "mini_epochs": 4, "network": network}
        return {"params": {"algo": {"name": "a2c_continuous"}, "network": network, "config": config}}


SHIPPED = [
    Shipped("direct/allegro_hand", 16, 32768, None, 4, False, 8192),
    Shipped("direct/ant", 16, 32768, None, 4, False, 4096),
    Shipped("direct/anymal_c flat", 24, 24576, None, 4, False, 4096),
    Shipped("direct/anymal_c rough", 24, 24576, None, 4, False, 4096),
    Shipped("direct/automate", 32, 4096, 256, 4, True, 128),
    Shipped("direct/cart_double_pendulum", 32, 16384, None, 4, False, 4096),
    Shipped("direct/cartpole camera", 64, 2048, None, 4, False, 512),
    Shipped("direct/cartpole", 32, 16384, None, 4, False, 4096),
    Shipped("direct/factory", 128, 512, 512, 128, True, 128),
    Shipped("direct/forge", 128, 512, 512, 128, True, 128),
    Shipped("direct/forge nut_thread", 256, 512, 512, 128, True, 128),
    Shipped("direct/franka_cabinet", 16, 8192, None, 4, False, 4096),
    Shipped("direct/humanoid", 32, 32768, None, 4, False, 4096),
    Shipped("direct/quadcopter", 24, 24576, None, 4, False, 4096),
    Shipped("direct/shadow_hand", 16, 32768, None, 4, False, 8192),
    Shipped("direct/shadow_hand ff", 16, 16384, 32768, 4, False, 8192),
    Shipped("direct/shadow_hand lstm", 16, 16384, 32768, 4, True, 8192),
    Shipped("direct/shadow_hand vision", 64, 19600, 19600, 4, False, 1225),
    Shipped("direct/shadow_hand_over", 16, 32768, None, 4, False, 2048),
    Shipped("classic/ant", 16, 32768, None, 4, False, 4096),
    Shipped("classic/cartpole camera", 64, 2048, None, 4, False, 512),
    Shipped("classic/cartpole feature", 16, 2048, None, 4, False, 512),
    Shipped("classic/cartpole", 16, 8192, None, 4, False, 4096),
    Shipped("classic/humanoid", 32, 32768, None, 4, False, 4096),
    Shipped("drone_arl/track_position", 32, 2048, None, None, True, 4096),
    Shipped("velocity/anymal_c flat", 24, 24576, None, 4, False, 4096),
    Shipped("velocity/anymal_c rough", 24, 24576, None, 4, False, 4096),
    Shipped("cabinet/franka", 96, 4096, None, 4, False, 4096),
    Shipped("cabinet/openarm", 96, 4096, None, 4, False, 4096),
    Shipped("dexsuite/kuka_allegro", 36, 36864, None, None, False, 4096),
    Shipped("inhand/allegro_hand", 24, 16384, None, 4, False, 8192),
    Shipped("lift/franka", 24, 24576, None, None, False, 4096),
    Shipped("lift/openarm", 24, 24576, None, None, False, 4096),
    Shipped("reach/franka", 24, 24576, None, None, False, 4096),
    Shipped("reach/openarm bimanual", 24, 24576, None, None, False, 4096),
    Shipped("reach/openarm unimanual", 24, 24576, None, None, False, 4096),
    Shipped("reach/ur_10", 24, 24576, None, None, False, 4096),
]
