"""Figures: records of the store in, plotly's figures out, for pages and notebooks. Nothing here knows of a request.

A figure is made in the colours of the light theme; style.py and static/charts.js make it dark.
"""
