"""Training in plain functions: losses, optimisers, clipping, a loop, and states that a run resumes from exactly."""

from rnnopt.training.checkpoint import load, save
from rnnopt.training.clipping import clip_by_norm
from rnnopt.training.loop import evaluate, init_head, train
from rnnopt.training.losses import cross_entropy
from rnnopt.training.optimizers import SGD, Adam

__all__ = ["SGD", "Adam", "clip_by_norm", "cross_entropy", "evaluate", "init_head", "load", "save", "train"]
