"""OpenVINO's backend where it needs no runtime."""
