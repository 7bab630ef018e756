"""What this very machine's memory and math units reach, measured: the roofline's other ceilings.

A data sheet's peak can be out of reach by half, and by how much depends on the machine: its power limit, its cooling,
its ECC. `warpbench calibrate` measures the ceilings once and leaves them in a file of the user's
(ceiling_file.py); each later run on that GPU, known by its UUID, records them next to the data sheet's.
"""
