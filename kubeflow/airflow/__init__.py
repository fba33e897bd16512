"""Compiles the same pipeline to a DAG of Airflow."""
