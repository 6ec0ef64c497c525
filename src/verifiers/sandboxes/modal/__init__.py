"""Boxes as sandboxes of a Modal account: the backend, and one box."""

from verifiers.sandboxes.modal.backend import ModalBackend

__all__ = ["ModalBackend"]
