# /etc/screening/web_hook.py
"""Post the answer of a night to an address."""

import sys
import urllib.request

request = urllib.request.Request(
    sys.argv[1],
    sys.stdin.buffer.read(),
    {"Content-Type": "application/json"},
)
urllib.request.urlopen(request, timeout=20)
