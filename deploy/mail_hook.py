# /etc/screening/mail_hook.py
"""Mail one line per series when a night is published."""

import json
import smtplib
import sys
from email.message import EmailMessage

night = json.load(sys.stdin)
host, port, reader = sys.argv[1:]
lines = [
    f"{series['series']}: {series['status']}, flagged {series['flagged']}"
    for series in night["series"]
]
letter = EmailMessage()
letter["From"] = "screening@localhost"
letter["To"] = reader
letter["Subject"] = f"Screening of {night['night']}: code {night['exit_code']}"
letter.set_content("\n".join(lines))
with smtplib.SMTP(host, int(port), timeout=20) as server:
    server.send_message(letter)
