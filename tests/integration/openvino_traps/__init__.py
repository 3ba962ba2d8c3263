"""What goes wrong silently with OpenVINO and NNCF."""
