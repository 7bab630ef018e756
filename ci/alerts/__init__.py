"""Alerts for the main branch: found, grouped, routed, composed and delivered."""
