"""Conformance tests: every backend has to answer as the reference does; out-of-tree backends import this package.

Source: spec item 8.
"""
