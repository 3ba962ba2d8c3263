"""What people reported in public, rebuilt: one test for each report, named after its kind."""
