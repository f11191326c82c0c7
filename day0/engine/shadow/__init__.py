"""Tensors without values: the engine's own code runs on shapes, types and lifetimes, and the most that lived at once is its peak.

Memory of a step follows from what the code keeps and lets go, so the code is read a second time with a stand-in for torch instead of
being described a second time. Needs no torch; a step takes milliseconds whatever its sizes.
"""
