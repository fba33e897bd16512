import pytest
from pydantic import TypeAdapter, ValidationError

from fullpass.trainer.config import ModelConfig, TrainerConfig, TrainingConfig, WideDeep


def test_a_bare_kind_is_enough():
    assert TrainerConfig.model_validate({"model": "wide_deep"}).model == WideDeep(kind="wide_deep")


def test_a_dump_reads_back_the_same():
    config = TrainerConfig.model_validate(
        {
            "model": {"kind": "dcn", "hidden": [8], "low_rank": 2},
            "training": {"early_stopping": None, "batch_size": 64, "optimizer": "adamw", "weight_decay": 0.1},
            "input": {"cache": "none", "shuffle_buffer": 0},
        }
    )
    assert TrainerConfig.model_validate(config.model_dump(mode="json")) == config


@pytest.mark.parametrize("optimizer", ["adam", "sgd", "ftrl"])
def test_weight_decay_is_for_adamw(optimizer):
    with pytest.raises(
        ValidationError, match=f"weight_decay is for optimizer: adamw. Received: optimizer: {optimizer}"
    ):
        TrainingConfig(optimizer=optimizer, weight_decay=0.1)


@pytest.mark.parametrize(
    "model",
    ["forest", {"kind": "linear", "hidden": [3]}, {"kind": "mlp", "hidden": []}, {"kind": "module", "function": "f"}],
)
def test_models_that_do_not_exist(model):
    with pytest.raises(ValidationError):
        TypeAdapter(ModelConfig).validate_python(model)


def test_auto_epochs_go_on_and_a_time_limit_has_a_unit():
    assert (TrainingConfig().goes_on_to, TrainingConfig(epochs=7).goes_on_to) == (300, 7)
    assert TrainingConfig(early_stopping=None).goes_on_to == 100
    assert (TrainingConfig().seconds, TrainingConfig(time="5m").seconds, TrainingConfig(time=None).seconds) == (
        3600,
        300,
        None,
    )
    with pytest.raises(ValidationError, match="max_minutes is now time, with a unit. Write time: 10m"):
        TrainingConfig.model_validate({"max_minutes": 10})
