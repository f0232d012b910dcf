"""Weights of other frameworks, in and out, and arrays without a copy."""

from rnnopt.arrays import as_numpy
from rnnopt.interop.keras import from_keras, to_keras
from rnnopt.interop.state_dict import from_torch, to_torch

__all__ = ["as_numpy", "from_keras", "from_torch", "to_keras", "to_torch"]
