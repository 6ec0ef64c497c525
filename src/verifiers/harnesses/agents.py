"""The agent programs this library knows, each at the version that is measured."""

from __future__ import annotations

import json
from typing import Any

from verifiers.harnesses.program import Install, Program, Tools

_MCP_COMMAND = ["{python}", "-I", "-S", "{mcp_script}", "{mcp_socket}", "{secret}"]
_NO_TOOLS = '"mcp": {}'

CODEX = Program(
    name="codex",
    version="0.171.0",
    install=Install(kind="npm", packages=["@openai/codex@0.171.0"]),
    command=["codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "{prompt}"],
    env={"CODEX_HOME": "{home}/.codex", "MODEL_KEY": "{secret}"},
    files={
        # its built-in provider tries web sockets first, seven times
        "{home}/.codex/config.toml": """\
model = "{model}"
model_provider = "local"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.local]
name = "local"
base_url = "{url}/v1"
env_key = "MODEL_KEY"
wire_api = "responses"
"""
    },
    tools=Tools(
        files={
            "{home}/.codex/config.toml": f"""\
[mcp_servers.environment]
command = "{{python}}"
args = {json.dumps(_MCP_COMMAND[1:])}
"""
        }
    ),
)

CLAUDE_CODE = Program(
    name="claude-code",
    version="2.1.197",
    install=Install(kind="npm", packages=["@anthropic-ai/claude-code@2.1.197"]),
    command=["claude", "--dangerously-skip-permissions", "--print", "{prompt}"],
    system_prompt=["--append-system-prompt", "{system_prompt}"],
    env={
        "ANTHROPIC_BASE_URL": "{url}",
        "ANTHROPIC_API_KEY": "{secret}",
        "ANTHROPIC_MODEL": "{model}",
        "IS_SANDBOX": "1",  # as root it refuses to skip permissions without
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    },
    # without these it ends at once, with exit code 0 and no output
    files={"{home}/.claude.json": '{"hasCompletedOnboarding": true, "bypassPermissionsModeAccepted": true}\n'},
    tools=Tools(
        files={
            "{home}/.mcp.json": json.dumps(
                {"mcpServers": {"environment": {"command": _MCP_COMMAND[0], "args": _MCP_COMMAND[1:]}}}
            )
        },
        arguments=["--strict-mcp-config", "--mcp-config={home}/.mcp.json"],
    ),
    toolless_is_side=True,
)


def _opencode_config() -> str:
    config: dict[str, Any] = {
        "autoupdate": False,
        "share": "disabled",
        "model": "local/{model}",
        "permission": {"*": "allow"},
        "provider": {
            "local": {
                "npm": "@ai-sdk/openai-compatible",
                "name": "local",
                "options": {"baseURL": "{url}/v1", "apiKey": "{secret}"},
                "models": {"{model}": {"name": "{model}"}},
            }
        },
        "mcp": {},
    }
    return json.dumps(config)


OPENCODE = Program(
    name="opencode",
    version="1.18.33",
    install=Install(kind="npm", packages=["opencode-ai@1.18.33"]),
    command=["opencode", "run", "{prompt}"],
    env={"OPENCODE_CONFIG": "{home}/.config/opencode/opencode.json", "OPENCODE_DISABLE_AUTOUPDATE": "1"},
    files={"{home}/.config/opencode/opencode.json": _opencode_config()},
    tools=Tools(
        replace={_NO_TOOLS: f'"mcp": {json.dumps({"environment": {"type": "local", "command": _MCP_COMMAND}})}'}
    ),
    toolless_is_side=True,
)

_PI_MODEL: dict[str, Any] = {
    "id": "{model}",
    "name": "{model}",
    "reasoning": False,
    "input": ["text"],
    "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
    "contextWindow": 128_000,
    "maxTokens": 16_000,
}

PI = Program(
    name="pi",
    version="0.73.1",
    install=Install(kind="npm", packages=["@mariozechner/pi-coding-agent@0.73.1"]),
    command=["pi", "--print", "--offline", "--no-session", "--provider", "local", "--model", "{model}", "{prompt}"],
    system_prompt=["--append-system-prompt", "{system_prompt}"],
    env={"MODEL_KEY": "{secret}", "PI_OFFLINE": "1"},
    files={
        "{home}/.pi/agent/models.json": json.dumps(
            {
                "providers": {
                    "local": {
                        "baseUrl": "{url}/v1",
                        "apiKey": "MODEL_KEY",
                        "api": "openai-completions",
                        "models": [_PI_MODEL],
                    }
                }
            }
        )
    },
    toolless_is_side=True,
)

MINI_SWE_AGENT = Program(
    name="mini-swe-agent",
    version="2.4.6",
    install=Install(kind="pip", packages=["mini-swe-agent==2.4.6"]),
    command=[
        *("python3", "-m", "minisweagent.run.mini", "--yolo", "--exit-immediately", "--cost-limit", "0"),
        *("--model", "openai/{model}", "--output", "{home}/trajectory.json", "--task", "{prompt}"),
    ],
    env={
        "PYTHONPATH": "{program}",
        "OPENAI_API_KEY": "{secret}",
        "OPENAI_API_BASE": "{url}/v1",
        "MSWEA_CONFIGURED": "true",
        "MSWEA_COST_TRACKING": "ignore_errors",
        "MSWEA_GLOBAL_CONFIG_DIR": "{home}",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else it asks the internet for prices
    },
)

PROGRAMS = {program.name: program for program in (MINI_SWE_AGENT, CODEX, CLAUDE_CODE, OPENCODE, PI)}


def command_program(line: str) -> Program:
    """Any shell line. It finds the task in $PROMPT, and the model server in the variables its SDKs look for."""
    return Program(
        name="command",
        version=line,
        command=["/bin/sh", "-c", line],
        env={
            "PROMPT": "{prompt}",
            "MODEL": "{model}",
            "OPENAI_BASE_URL": "{url}/v1",
            "OPENAI_API_KEY": "{secret}",
            "ANTHROPIC_BASE_URL": "{url}",
            "ANTHROPIC_API_KEY": "{secret}",
        },
        tools=Tools(),
    )
