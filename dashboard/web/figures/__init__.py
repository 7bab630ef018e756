"""Figures: records of the store in, plotly's JSON out. Nothing here knows of a request or of a theme.

A colour is a CSS variable's name such as "--ww-blue"; static/charts.js puts in the theme's value, so that one figure
serves dark and light.
"""
