"""Recurrent networks made fast by exposing parallelism, reproducibly.

>>> import numpy as np, rnnopt
>>> spec = rnnopt.NetworkSpec(cell="lstm", layers=2, input_size=8, hidden_size=16, batch=4, steps=10)
>>> network = rnnopt.compile(spec, rnnopt.init_weights(spec), stage="wavefront")
>>> outputs, (h, c) = network(np.zeros((10, 4, 8), np.float32))
"""

from rnnopt.network import Network, TrainingNetwork, compile
from rnnopt.packing import pack, unpack
from rnnopt.schedule import LADDER, SWITCHES, TRAINING_LADDER, TRAINING_SWITCHES, schedule, schedule_backward
from rnnopt.spec import NetworkSpec
from rnnopt.time_parallel import MGRIT
from rnnopt.weights import init_weights

__version__ = "0.1.0"

__all__ = ["LADDER", "MGRIT", "SWITCHES", "TRAINING_LADDER", "TRAINING_SWITCHES", "Network", "NetworkSpec", "TrainingNetwork",
           "compile", "init_weights", "pack", "schedule", "schedule_backward", "unpack"]
