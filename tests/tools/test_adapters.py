"""An adapter without its framework says what to install, and nothing else needs it."""

import sys
from importlib import import_module

import pytest


@pytest.mark.parametrize(
    ("name", "framework", "command"),
    [
        ("langgraph", "langgraph", "pip install '.[langgraph]'"),
        ("openai_agents", "agents", "pip install '.[openai-agents]'"),
        ("anthropic", "anthropic", "pip install anthropic"),
    ],
)
def test_an_adapter_without_its_framework_says_what_to_install(
    monkeypatch, name, framework, command
):
    module = f"plait.tools.adapters.{name}"
    for loaded in [row for row in sys.modules if row.partition(".")[0] == framework]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, framework, None)
    monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(ImportError) as caught:
        import_module(module)
    assert str(caught.value).startswith(module)
    assert str(caught.value).endswith(command)
