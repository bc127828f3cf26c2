"""Recognise patients across tables: shapes of ids, their reduced forms, collisions.

An id is compared as text. Systems write the same number in several ways: without zeros
in front, with blanks or dots, in other letters. The reduced form of an id is the same
for all of these. Two ids that differ and have one reduced form are a collision: a
program on the way has probably rewritten one of them.
"""
