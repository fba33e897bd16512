"""Pushed models: lineage, versions, blessing and retention."""
