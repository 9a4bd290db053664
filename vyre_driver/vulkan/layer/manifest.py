"""The manifest by which the Vulkan loader finds the layer. ``setup.py`` runs this file, before the package can be imported.

Source: the Vulkan loader's LoaderLayerInterface document.
"""

from __future__ import annotations

MANIFEST_NAME = "vyre_layer.json"


def manifest(library_path: str) -> dict[str, object]:
    """Return the manifest of the layer in a library, whose path is absolute or begins with ``./``."""
    layer = {
        "name": "VK_LAYER_VYRE_driver",
        "type": "GLOBAL",
        "api_version": "1.3.0",
        "implementation_version": "1",
        "description": "what kompute leaves out: saved pipelines, cheap waits, features, results, barriers",
        "functions": {"vkNegotiateLoaderLayerInterfaceVersion": "vkNegotiateLoaderLayerInterfaceVersion"},
        "library_path": library_path,
    }
    return {"file_format_version": "1.2.0", "layer": layer}
