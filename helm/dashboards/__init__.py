"""Grafana dashboards as code: `python -m helm.dashboards` writes them into the chart."""
