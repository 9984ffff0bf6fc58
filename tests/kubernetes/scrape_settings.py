"""What the Prometheus operator would make of the chart's PodMonitor, for a Prometheus without it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


def scrape_settings(monitor: dict[str, Any], kubeconfig: Path, rules: list[Path]) -> dict[str, Any]:
    """What the operator makes of our PodMonitor: the same labels, the same port."""
    ((label, value),) = monitor["spec"]["selector"]["matchLabels"].items()
    job = monitor["spec"]["jobLabel"]

    def meta(name: str) -> str:
        return "__meta_kubernetes_pod_label_" + name.replace("/", "_").replace(".", "_")

    endpoint = monitor["spec"]["podMetricsEndpoints"][0]
    return {
        "global": {"scrape_interval": "2s", "evaluation_interval": "2s"},
        "rule_files": [str(path) for path in rules],
        "scrape_configs": [
            {
                "job_name": "podMonitor/monitoring/brokerwire",
                "metrics_path": endpoint["path"],
                "kubernetes_sd_configs": [{"role": "pod", "kubeconfig_file": str(kubeconfig)}],
                "relabel_configs": [
                    {"source_labels": [meta(label)], "regex": value, "action": "keep"},
                    {
                        "source_labels": ["__meta_kubernetes_pod_container_port_name"],
                        "regex": endpoint["port"],
                        "action": "keep",
                    },
                    {"source_labels": ["__meta_kubernetes_namespace"], "target_label": "namespace"},
                    {"source_labels": ["__meta_kubernetes_pod_name"], "target_label": "pod"},
                    {"source_labels": [meta(job)], "regex": "(.+)", "target_label": "job"},
                ],
            }
        ],
    }


def by_file(settings: dict[str, Any], monitor: dict[str, Any], pods: list[dict[str, Any]]) -> Any:
    """Put targets of the same labels into a file, for a Prometheus built without Kubernetes.

    Debian's is; what it is told here comes from the API server all the same.
    """
    job = monitor["spec"]["jobLabel"]
    (scrape,) = settings["scrape_configs"]
    del scrape["kubernetes_sd_configs"], scrape["relabel_configs"]
    scrape["static_configs"] = [
        {
            "targets": [f"{pod['status']['podIP']}:{_port(monitor, pod)}"],
            "labels": {
                "namespace": pod["metadata"]["namespace"],
                "pod": pod["metadata"]["name"],
                "job": pod["metadata"]["labels"][job],
            },
        }
        for pod in pods
    ]
    return settings


def _port(monitor: dict[str, Any], pod: dict[str, Any]) -> int:
    name = monitor["spec"]["podMetricsEndpoints"][0]["port"]
    containers = [*pod["spec"]["initContainers"], *pod["spec"]["containers"]]
    ports = [port for each in containers for port in each.get("ports", ())]
    (found,) = [port["containerPort"] for port in ports if port.get("name") == name]
    return int(found)
