"""Every method once more, written from its equations alone: what the tool's decisions
are held to.
"""
