"""The demo: an embedded federation and a story in five scenes, told with true numbers."""
