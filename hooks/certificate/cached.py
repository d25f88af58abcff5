"""Certificates that were measured on this machine, for runs of the same weights."""

from importlib.metadata import version
from pathlib import Path

from pydantic import ValidationError

from ..cache import cache_folder
from ..errors import UserError
from ..files import write_text
from ..identity import Identity
from .certificate import Certificate


def computing_versions() -> dict[str, str]:
    """Those of the libraries whose arithmetic a certificate is about."""
    return {name: version(name) for name in ("torch", "transformers")}


def save_certificate(certificate: Certificate) -> None:
    """Keep a certificate for `find_certificate`, in place of the one that it had of the same weights.

    Raises UserError if the cache folder cannot be written.
    """
    for fingerprint in certificate.weights.values():
        path = _path(fingerprint, certificate.device)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_text(path, certificate.model_dump_json(indent=1) + "\n")
        except OSError as error:
            raise UserError(f"{path}: cannot be written ({error.strerror}); set DOXASCOPE_CACHE") from error


def find_certificate(identity: Identity) -> Certificate | None:
    """The certificate of these weights on this kind of device under the present libraries; None: there is none."""
    try:
        found = Certificate.model_validate_json(_path(identity.weights, identity.device).read_text("utf-8"))
    except (OSError, ValidationError):
        return None
    current = found.versions == computing_versions() and identity.dtype in found.floor
    return found if current else None


def _path(fingerprint: str, device: str) -> Path:
    return cache_folder() / "certificates" / f"{fingerprint}-{device}.json"
