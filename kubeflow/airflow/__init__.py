"""The same pipeline as a DAG of Airflow."""
