"""The tasks of the cold-start trials."""

from __future__ import annotations

from tests.clients.trials import guide, hunt, migrate

TASKS = {task.name: task for task in (hunt.TASK, migrate.TASK, guide.TASK)}
