"""``python -m rnnopt.devices.cuda.standin``: let this environment's 'cuda' be the stand-in where there is no driver, and try it."""

import os
import sys

from rnnopt import devices
from rnnopt.devices.cuda import standin

os.environ["RNNOPT_CUDA_DRIVER"] = "standin"
try:
    line = devices.status_line(devices.resolve("cuda"))
except devices.DeviceUnavailable as error:
    sys.exit(f"pycuda-standin: {error}")
standin.marker().parent.mkdir(parents=True, exist_ok=True)
standin.marker().write_text("device='cuda' is the stand-in driver where there is no NVIDIA driver: see rnnopt doctor\n")
print(line)
