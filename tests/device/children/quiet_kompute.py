"""Load kp and tell as JSON whether the root logger stayed as the program had set it up.

Usage: quiet_kompute.py
"""

from __future__ import annotations

import json
import logging
import sys

from vyre_driver.kompute._kp import load_kompute

if __name__ == "__main__":
    untouched = (logging.root.handlers[:], logging.root.level)
    load_kompute()
    kept = (logging.root.handlers, logging.root.level) == untouched
    imported = any(name.split(".")[-1] == "kp" for name in sys.modules)
    json.dump({"kp imported": imported, "handlers": len(untouched[0]), "kept": kept}, sys.stdout)
