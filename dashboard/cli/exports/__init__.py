"""Exports: CSV, JSON, Parquet and data frames."""
