"""Other people's loops give the losses and gradients of the plain loop, to the bit."""

import importlib.util
import runpy
from pathlib import Path

import pytest
import torch
from tests.token_nets import text_data, texts, tiny_bert
from torch import nn
from torch.utils.data import DataLoader

import rightreasons as rr

EXAMPLES = Path(__file__).parents[2] / "examples"
RECIPES = {
    "r3": lambda: rr.recipes.r3(weight=10.0),
    "reff": rr.recipes.reff,
    "counterexamples": rr.recipes.counterexamples,
}
TEXT_RECIPES = {
    "r3": lambda: rr.recipes.r3(weight=10.0),
    "token_adv_r4": lambda: rr.recipes.token_adv_r4(weight=10.0, num_candidates=None),
    "counterexamples": rr.recipes.counterexamples,
}
NEEDS = {  # packages that an example imports
    "huggingface_trainer": ("transformers", "accelerate"),
    "lightning_module": ("lightning",),
    "log_training": ("tensorboard", "sklearn"),
    "plain_loop": (),
}
# Lightning and transformers themselves warn, about torch and about settings left alone.
pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.filterwarnings("ignore:.*LeafSpec.* is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore:.*LeafSpec.* is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The .*dataloader.* does not have many workers"),
    pytest.mark.filterwarnings("ignore:You defined a `validation_step` but"),
]


def require(name: str) -> None:
    for package in NEEDS[name]:
        pytest.importorskip(package, reason=f"{package} is not installed")


def example(name: str):
    """An example as a module."""
    require(name)
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make_net() -> nn.Module:
    """A residual net of transformers with BatchNorm, always with the same weights."""
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    torch.manual_seed(1)
    sizes = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1]}
    config = transformers.ResNetConfig(num_labels=2, layer_type="basic", **sizes)
    return transformers.ResNetForImageClassification(config)


def make_vit() -> nn.Module:
    """A transformer without BatchNorm and dropout: no sample depends on its batch."""
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    torch.manual_seed(1)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.ViTConfig(
        num_labels=2, image_size=16, patch_size=4, intermediate_size=16, **sizes
    )
    return transformers.ViTForImageClassification(config)


def make_data(num_images: int = 12) -> rr.Batch:
    draw = torch.Generator().manual_seed(2)
    mask = torch.zeros(num_images, 1, 16, 16)
    mask[:, :, :6, :6] = 1
    return rr.Batch(
        x=torch.rand(num_images, 3, 16, 16, generator=draw),
        y=torch.arange(num_images) % 2,
        mask=mask,
        group=torch.arange(num_images) % 3,
    )


class Recorder:
    """Gives every step of an objective its own seed, and keeps the gradients of each update."""

    def __init__(self, objective: rr.Objective, model: nn.Module, lr: float = 0.1) -> None:
        self.gradients: list[dict[str, torch.Tensor]] = []
        self.losses: list[float] = []
        self.calls = 0
        self.model = model
        objective.register_forward_pre_hook(self.seed)
        self.optimizer = torch.optim.SGD(model.parameters(), lr=lr)
        self.hook = self.optimizer.register_step_pre_hook(self.keep)

    def seed(self, objective, inputs) -> None:
        torch.manual_seed(self.calls)
        self.calls += 1

    def keep(self, *_) -> None:
        named = self.model.named_parameters()
        self.gradients.append({n: p.grad.clone() for n, p in named if p.grad is not None})


def run_plain(objective: rr.Objective, net: nn.Module, batches: list[rr.Batch]) -> Recorder:
    recorder = Recorder(objective, net)
    model = rr.models.huggingface(net).train()
    for batch in batches:
        loss = objective(model, batch)
        recorder.optimizer.zero_grad()
        loss.backward()
        recorder.optimizer.step()
        recorder.losses.append(loss.total.item())
    return recorder


def as_inputs(batch: rr.Batch) -> dict[str, torch.Tensor]:
    if not batch.x.is_floating_point():
        columns = {"input_ids": batch.x, "labels": batch.y, "mask": batch.mask}
        return {**columns, "index": batch.index, **batch.inputs}
    return {"pixel_values": batch.x, "labels": batch.y, "mask": batch.mask, "group": batch.group}


def make_trainer(objective, net, batches, folder, *, optimizer=None, **settings):
    """A `Trainer` over batches that are made already."""
    module = example("huggingface_trainer")
    steps = len(batches) // settings.get("gradient_accumulation_steps", 1)
    args = module.TrainingArguments(
        str(folder),
        remove_unused_columns=False,
        max_grad_norm=0.0,
        **{"max_steps": steps, "save_strategy": "no", "logging_steps": 1, **settings},
        report_to="none",
        use_cpu=True,
        disable_tqdm=True,
    )
    schedule = optimizer and torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
    trainer = module.ObjectiveTrainer(
        net, args, objective=objective, optimizers=(optimizer, schedule)
    )
    loader = DataLoader([as_inputs(batch) for batch in batches], batch_size=None)
    trainer.get_train_dataloader = lambda: loader
    trainer.get_eval_dataloader = lambda data=None: loader
    return trainer


def run_trainer(objective, net, batches, folder, **settings) -> tuple[Recorder, list[dict]]:
    recorder = Recorder(objective, net)
    trainer = make_trainer(
        objective, net, batches, folder, optimizer=recorder.optimizer, **settings
    )
    trainer.train()
    rows = [row for row in trainer.state.log_history if "loss" in row]
    recorder.losses = [row["loss"] for row in rows]
    return recorder, rows


def run_lightning(objective, net, batches, folder) -> tuple[Recorder, list[dict]]:
    module = example("lightning_module")
    recorder = Recorder(objective, net)
    recorder.hook.remove()  # Lightning computes gradients inside `step`, after such hooks
    rows = []

    class Recorded(module.Classifier):
        def configure_optimizers(self):
            return recorder.optimizer

        def on_before_optimizer_step(self, optimizer):
            recorder.keep()

        def on_train_batch_end(self, outputs, batch, number):
            recorder.losses.append(outputs["loss"].item())
            rows.append({name: float(v) for name, v in self.trainer.callback_metrics.items()})

    trainer = module.lightning.Trainer(
        max_epochs=1,
        accelerator="cpu",
        default_root_dir=folder,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    items = [(batch.x, batch.y, batch.mask) for batch in batches]
    model = Recorded(rr.models.huggingface(net).train(), objective)
    trainer.fit(model, DataLoader(items, batch_size=None))
    return recorder, rows


@pytest.mark.slow
@pytest.mark.parametrize("loop", [run_trainer, run_lightning])
@pytest.mark.parametrize("recipe", RECIPES)
def test_losses_and_gradients_are_those_of_the_plain_loop(recipe, loop, tmp_path):
    data = make_data()
    batches = [data[:4], data[4:8], data[8:]]
    objective, plain_net, net = RECIPES[recipe](), make_net(), make_net()
    plain = run_plain(RECIPES[recipe](), plain_net, batches)
    other, rows = loop(objective, net, batches, tmp_path)
    assert len(set(plain.losses)) == len(plain.losses) == len(other.losses) == 3
    assert other.losses == pytest.approx(plain.losses, rel=1e-7)
    for ours, theirs in zip(plain.gradients, other.gradients, strict=True):
        assert ours.keys() == theirs.keys()
        assert any(gradient.abs().max() > 1e-4 for gradient in ours.values())
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    for name, tensor in plain_net.state_dict().items():  # BatchNorm's statistics too
        assert torch.equal(tensor, net.state_dict()[name]), name
    for row, loss in zip(rows, plain.losses, strict=True):
        summed = sum(row[f"weights/{name}"] * row[f"parts/{name}"] for name in objective.terms)
        assert summed == pytest.approx(loss, rel=1e-5)


@pytest.mark.slow
def test_every_sample_of_an_update_counts_the_same(tmp_path):
    """Also where the last of several batches is smaller, which `num_items_in_batch` tells."""
    data = make_data(10)
    whole = run_plain(RECIPES["r3"](), make_vit(), [data])
    batches = [data[:4], data[4:8], data[8:]]
    parts, rows = run_trainer(
        RECIPES["r3"](), make_vit(), batches, tmp_path, gradient_accumulation_steps=3
    )
    (ours,), (theirs,) = whole.gradients, parts.gradients
    for name, gradient in ours.items():
        torch.testing.assert_close(theirs[name], gradient, rtol=1e-4, atol=1e-6)
    assert parts.losses == pytest.approx(whole.losses, rel=1e-5)
    summed = rows[0]["parts/cross_entropy"] + 10.0 * rows[0]["parts/r3"]
    assert summed == pytest.approx(whole.losses[0], rel=1e-5)


def test_without_a_count_the_loss_is_the_mean(tmp_path):
    data, net = make_data(4), make_vit().eval()
    trainer = make_trainer(RECIPES["r3"](), net, [data], tmp_path)
    expected = RECIPES["r3"]()(rr.models.huggingface(net), data).total.item()
    inputs = as_inputs(data)
    assert trainer.compute_loss(net, dict(inputs)).item() == pytest.approx(expected)
    twice = trainer.compute_loss(net, dict(inputs), num_items_in_batch=torch.tensor(8))
    assert twice.item() == pytest.approx(expected / 2)
    loss, outputs = trainer.compute_loss(net, dict(inputs), return_outputs=True)
    assert loss.item() == pytest.approx(expected)
    torch.testing.assert_close(outputs["logits"], net(data.x).logits.detach())


def test_predictions_are_those_of_the_samples_and_not_of_their_copies(tmp_path):
    data, net = make_data(), make_net()
    trainer = make_trainer(RECIPES["counterexamples"](), net, [data], tmp_path)
    seen = {}
    trainer.compute_metrics = lambda output: seen.update(logits=output.predictions) or {}
    metrics = trainer.evaluate()
    with torch.no_grad():
        expected = net.eval()(data.x).logits
    torch.testing.assert_close(torch.from_numpy(seen["logits"]), expected)
    assert metrics["eval_parts/counter_examples"] == pytest.approx(metrics["eval_loss"])
    net.train()
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    trainer.compute_loss(net, as_inputs(data), return_outputs=True)
    tracked = [name for name in before if name.endswith("num_batches_tracked")]
    assert tracked
    assert all(net.state_dict()[name] == before[name] + 1 for name in tracked)


def test_lost_columns_are_named(tmp_path):
    module = example("huggingface_trainer")
    args = module.TrainingArguments(str(tmp_path), report_to="none", use_cpu=True)
    with pytest.raises(rr.errors.InvalidSettingError, match="Set remove_unused_columns=False"):
        module.ObjectiveTrainer(make_vit(), args, objective=RECIPES["r3"]())
    data, net = make_data(4), make_vit()
    trainer = make_trainer(RECIPES["r3"](), net, [data], tmp_path)
    inputs = {"pixel_values": data.x, "labels": data.y}
    message = "holds pixel_values, labels: look .* give `mask` .* whether remove_unused_columns"
    with pytest.raises(rr.errors.InvalidBatchError, match=message):
        trainer.compute_loss(net, inputs)
    with pytest.raises(rr.errors.InvalidBatchError, match="but it holds pixel_values, mask"):
        trainer.compute_loss(net, {"pixel_values": data.x, "mask": data.mask})
    with pytest.raises(rr.errors.InvalidBatchError, match="but got names, too"):
        trainer.compute_loss(net, {**inputs, "names": ["a"] * 4})


def test_texts_go_in_with_their_attention_mask(tmp_path):
    batch, net = texts(), tiny_bert().net.eval()
    objective = RECIPES["r3"]()
    columns = {"input_ids": batch.x, "labels": batch.y, "mask": batch.mask, **batch.inputs}
    trainer = make_trainer(objective, net, [batch], tmp_path)
    ours = trainer.compute_loss(net, columns)
    expected = objective.as_objective().eval()(rr.models.huggingface(net), batch).total
    torch.testing.assert_close(ours, expected)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", TEXT_RECIPES)
def test_texts_train_as_in_fit(recipe, tmp_path):
    """Three epochs of one batch: losses, gradients and weights are those of `fit`."""
    pytest.importorskip("accelerate", reason="accelerate is not installed")
    data, nets = text_data(), []
    for _ in range(2):
        torch.manual_seed(1)
        nets.append(tiny_bert().net)
        for layer in nets[-1].modules():
            if isinstance(layer, nn.Dropout):
                layer.p = 0.0
    objective = TEXT_RECIPES[recipe]()
    fitted = Recorder(objective, nets[0])
    result = rr.fit(
        rr.models.huggingface(nets[0]).train(),
        TEXT_RECIPES[recipe](),
        data,
        epochs=3,
        batch_size=6,
        optimizer=lambda parameters: fitted.optimizer,
        scheduler="constant",
    )
    objective.prepare(data, num_passes=3)
    trained, rows = run_trainer(objective, nets[1], [data.batch], tmp_path, max_steps=3)
    losses = [
        sum(row["weights"][name] * part for name, part in row["parts"].items())
        for row in result.history
    ]
    assert [row["loss"] for row in rows] == pytest.approx(losses, rel=1e-6)
    assert len(set(losses)) == len(trained.gradients) == len(fitted.gradients) == 3
    for ours, theirs in zip(fitted.gradients, trained.gradients, strict=True):
        assert ours.keys() == theirs.keys()
        assert any(gradient.abs().max() > 1e-4 for gradient in ours.values())
        for name, gradient in ours.items():
            torch.testing.assert_close(theirs[name], gradient, rtol=1e-9, atol=1e-12)
    for name, tensor in nets[0].state_dict().items():
        torch.testing.assert_close(nets[1].state_dict()[name], tensor, rtol=1e-9, atol=1e-12)


def test_own_nets_and_wrapped_models(tmp_path):
    """A net that takes `x` goes in as it is, also inside DataParallel; others must be adapted."""
    data = make_data(4)
    net = nn.Sequential(nn.Flatten(), nn.Linear(768, 2))
    trainer = make_trainer(RECIPES["r3"](), net, [data], tmp_path)
    assert trainer.label_names == ["labels"]
    inputs = {"input": data.x, "labels": data.y, "mask": data.mask}
    expected = RECIPES["r3"]()(net, data).total.item()
    for model in (net, nn.DataParallel(net)):
        assert trainer.compute_loss(model, inputs).item() == pytest.approx(expected)
    with pytest.raises(rr.errors.InvalidSettingError, match="rr.models.huggingface"):
        trainer.compute_loss(nn.DataParallel(make_vit()), as_inputs(data))


@pytest.mark.slow
def test_a_checkpoint_keeps_the_state_of_the_objective(tmp_path):
    data = make_data()
    batches = [data[:6], data[6:]]
    objective = rr.recipes.group_dro(num_groups=3, step_size=0.5)
    trainer = make_trainer(objective, make_vit(), batches, tmp_path, save_strategy="epoch")
    trainer.train()
    state = {name: tensor.clone() for name, tensor in objective.state_dict().items()}
    assert any(tensor.abs().max() > 0 for tensor in state.values())
    other = rr.recipes.group_dro(num_groups=3, step_size=0.5)
    again = make_trainer(other, make_vit(), batches, tmp_path)
    again.train(resume_from_checkpoint=True)  # all steps are done already
    assert all(torch.equal(other.state_dict()[name], state[name]) for name in state)
    (checkpoint,) = tmp_path.glob("checkpoint-*")
    (checkpoint / "objective.pt").unlink()
    with pytest.raises(rr.errors.CheckpointMismatchError, match="Resume from a checkpoint that"):
        again.train(resume_from_checkpoint=str(checkpoint))


@pytest.mark.slow
@pytest.mark.parametrize("name", NEEDS)
def test_examples_run(name, capsys):
    require(name)
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert "accuracy" in printed or "cross_entropy" in printed


def test_every_example_is_run():
    scripts = {path.stem for path in EXAMPLES.glob("*.py")} - {"tagged_photos"}
    assert scripts == NEEDS.keys()  # and tests of the five commands run the other one
