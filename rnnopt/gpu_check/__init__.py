"""What an owner of a GPU runs once, so that others know: tests, measurements, peers, and a folder of records.

``make gpu-check`` does it whole (:mod:`rnnopt.gpu_check.bootstrap` makes the environment); in an environment
that has PyCUDA, ``python -m rnnopt.gpu_check``. A card's clocks and modes are left as they are.
"""
