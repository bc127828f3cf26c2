"""A small FHIR server that keeps state: it applies transactions of conditional updates.

It does what the standard asks of `PUT Type?identifier=SYSTEM|VALUE`: none found, a
resource is created; one, it is updated, with a new version if anything differs; more,
the transaction fails (412). References to `urn:uuid:` of the same bundle become those
of the server, and one that leads nowhere fails the transaction.
"""

import copy
import json
from urllib.parse import parse_qs, urlsplit


class Failed(Exception):
    """A transaction that changed nothing."""


class FhirServer:
    """Resources by type and id, each with the versions it had."""

    def __init__(self):
        self.versions = {}

    def transaction(self, text):
        """Apply a bundle whole or not at all; return the status of each entry."""
        bundle = json.loads(text)
        if bundle["type"] != "transaction":
            raise Failed(bundle["type"])
        entries = bundle.get("entry", [])
        urls = [entry["fullUrl"] for entry in entries]
        if len(set(urls)) < len(urls):
            raise Failed("a fullUrl twice")
        versions = copy.deepcopy(self.versions)
        places = {}
        statuses = []
        for entry in entries:
            place = self._place(entry, len(versions) + 1)
            statuses.append(200 if place in versions else 201)
            places[entry["fullUrl"]] = place
            versions.setdefault(place, [])
        for entry in entries:
            resource = _resolved(entry["resource"], places)
            history = versions[places[entry["fullUrl"]]]
            if not history or history[-1] != resource:
                history.append(resource)
        self.versions = versions
        return statuses

    def _place(self, entry, number):
        """Return where a conditional update goes: the match, or a new place."""
        request = entry["request"]
        url = urlsplit(request["url"])
        kind = entry["resource"]["resourceType"]
        if request["method"] != "PUT" or url.path != kind:
            raise Failed(request)
        [token] = parse_qs(url.query)["identifier"]
        system, value = token.split("|")
        wanted = {"system": system, "value": value}
        if wanted not in entry["resource"]["identifier"]:
            raise Failed("the resource is not the one that is searched for")
        matches = [
            place
            for place, resource in self.newest(kind).items()
            if wanted in resource["identifier"]
        ]
        if len(matches) > 1:
            raise Failed(412)
        return matches[0] if matches else f"{kind}/{number}"

    def newest(self, kind):
        """Return the newest version of the resources of a type, by id."""
        return {
            place: history[-1]
            for place, history in self.versions.items()
            if place.startswith(f"{kind}/")
        }

    def of_patient(self, kind, patient):
        """Return the newest version of a patient's resources of a type."""
        found = []
        for resource in self.newest(kind).values():
            subject = resource.get("subject") or resource["for"]
            if subject["identifier"]["value"] == patient:
                found.append(resource)
        return found

    def n_versions(self):
        """Return how many versions each resource has."""
        return {place: len(history) for place, history in self.versions.items()}


def _resolved(value, places):
    """Return a resource whose references are those of the server."""
    if isinstance(value, list):
        return [_resolved(item, places) for item in value]
    if not isinstance(value, dict):
        return value
    resolved = {key: _resolved(item, places) for key, item in value.items()}
    reference = resolved.get("reference")
    if isinstance(reference, str):
        if reference not in places:
            raise Failed(f"a reference that leads nowhere: {reference}")
        resolved["reference"] = places[reference]
    return resolved
