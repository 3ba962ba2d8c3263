"""The report as a page that a browser opens from the disk: what it shows, and how it is written.

Nothing of it reaches for the network: styles, scripts and the chart library stand in the page itself.
"""
