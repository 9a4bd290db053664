"""kompute's module ``kp`` as wheels carry it and ``scripts/build_kp.py`` makes it; empty where neither put it here."""
