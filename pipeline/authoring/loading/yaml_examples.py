"""One YAML example per path of a pipeline file, shown in error messages and in the reference.

Examples of feature types and transforms are on their classes, as `example`.
"""

from collections.abc import Mapping

from fullpass.pipeline.authoring.loading.problems import Keys, keys_match

EXAMPLES: Mapping[str, str] = {
    "name": "taxi-tips",
    "data": "{source: {format: csv, path: trips/*.csv}}",
    "data.source": "{format: csv, path: trips/*.csv}",
    "data.source.path": "trips/*.csv",
    "data.source.columns": "[age, workclass, income]",
    "data.source.missing": '["", NA, "?"]',
    "data.types": "{zip_code: string}",
    "data.joins.*": "{source: {format: csv, path: companies.csv}, on: company}",
    "data.history.*": "{entity: customer, at: started_at, columns: [fare, shop], within: 90d}",
    "data.derive": "{big_tipper: tips > 0.2 * fare}",
    "data.derive.*": "tips > 0.2 * fare",
    "data.split": "{method: hash, column: trip_id, ratios: {train: 8, eval: 1, test: 1}}",
    "data.split.ratios": "{train: 8, eval: 2}",
    "data.split.until": "{train: 2013-10-01}",
    "data.split.values": "{train: [a, b], eval: c}",
    "data.records": "{shard_mb: 64}",
    "data.bad_rows": "{max_fraction: 0.01}",
    "data.window": "{spans: 1}",
    "label": "{name: big_tipper, task: binary}",
    "label.classes": "[low, middle, high]",
    "label.forecast": "{ahead: 7d, season: 7d, entity: shop, at: day}",
    "label.class_weights": "{yes: 3.0, no: 1.0}",
    "features": "{fare: number, company: category}",
    "features.*": "{type: number, missing: median}",
    "features.*.transforms": "[{clip: {max: 100}}, log1p, z_score]",
    "features.*.vocabulary": "{top_k: 1000, oov_buckets: 4}",
    "features.*.vocabulary.tokens": "[small, medium, large]",
    "features.*.hash": "{buckets: 1000}",
    "features.*.identity": "{size: 78}",
    "features.*.encoding": "{embedding: 16}",
    "features.*.parts": "[month, day_of_week]",
    "features.*.ngrams": "[1, 2]",
    "features.*.columns": "{latitude: number, zone: string}",
    "features.*.function": "my_features:distance",
    "sequences": "{history: {columns: {item: category, price: number}, max_length: 50}}",
    "sequences.*": "{columns: {item: category, price: number}, max_length: 50}",
    "sequences.*.columns": "{item: category, price: number}",
    "sequences.*.columns.*": "{type: number, missing: median}",
    "crosses": "[{inputs: [company, hour]}]",
    "crosses[*]": "{inputs: [company, hour], hash_buckets: 1000}",
    "crosses[*].inputs": "[company, hour]",
    "preprocessing": "my_features:preprocess",
    "model": "{kind: mlp, hidden: [64, 32]}",
    "model.hidden": "[64, 32]",
    "model.function": "my_model:build_model",
    "model.options": "{units: 32}",
    "training": "{epochs: 5, batch_size: 256}",
    "training.early_stopping": "{patience: 3}",
    "input": "{cache: memory}",
    "card": "{owner: pricing team, intended_use: ranking of trips}",
    "evaluation": "{metrics: [auc], thresholds: {auc: {min: 0.8}}}",
    "evaluation.metrics": "[auc, accuracy]",
    "evaluation.slices": "[[trip_start_hour], [company, payment_type]]",
    "evaluation.slices[*]": "[trip_start_hour]",
    "evaluation.thresholds": "{auc: {min: 0.8, not_worse_than: blessed}}",
    "evaluation.thresholds.*": "{min: 0.8, not_worse_than: blessed}",
    "evaluation.thresholds.*.slices": "{min: 0.6, not_worse_than: blessed, tolerance: 0.05, min_examples: 200}",
    "evaluation.thresholds.*.newest_span.slices": "{min: 0.5, min_examples: 200}",
    "evaluation.thresholds.*.newest_span": "{not_worse_than: blessed, tolerance: 0.02}",
    "stable_ids": "{keep_models: 30}",
    "gates": "{drift: stop, rows: {policy: stop, min_ratio: 0.8}}",
    "gates.anomalies": "stop",
    "gates.new_columns": "stop",
    "gates.dropped_columns": "warn",
    "gates.missing": "{policy: stop, max_change: 0.02}",
    "gates.drift": "{policy: stop, js: 0.05, features: {fare: {js: 0.2}, trip_start_hour: ignore}}",
    "gates.drift.features": "{fare: {js: 0.2}, trip_start_hour: ignore}",
    "gates.drift.features.*": "{js: 0.2}",
    "gates.label": "{policy: stop, linf: 0.05}",
    "gates.stopped_spans": "gap",
    "gates.rows": "{policy: stop, min_ratio: 0.8}",
    "parity": "{rows: 1000}",
    "push": "{to: serving, keep: 5}",
    "schedule": '{cron: "0 3 * * *", timezone: Europe/Zurich, timeout: 6h}',
    "schedule.timeout": "6h",
    "schedule.poll": "1m",
    "notify": "[{on: [failure, gate_stop], url_env: ALERT_URL}]",
    "notify[*]": "{on: [success], command: [python, tell.py]}",
    "notify[*].command": "[python, tell.py]",
    "mlflow": "{experiment: taxi}",
    "beam": "{runner: direct, workers: 4}",
    "beam.options": "{temp_location: gs://bucket/tmp}",
}
"""Path -> example value as it would be written there; `*` matches any name, `[*]` any item."""


def example_at(keys: Keys, examples: Mapping[str, str]) -> str | None:
    """Returns the example for a path, such as `label: {name: big_tipper, task: binary}`, or None."""
    for pattern, example in examples.items():
        if keys_match(pattern, keys):
            last = keys[-1]
            return example if isinstance(last, int) else f"{last}: {example}"
    return None
