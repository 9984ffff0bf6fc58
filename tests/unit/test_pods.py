"""Whose a process is: every way a cgroup is written, and what a pod cannot forge."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.processes.pods import NOT_KNOWN, Pod, PodFinder

UID = "11111111-2222-3333-4444-555555555555"
UNDERSCORED = UID.replace("-", "_")
HASH = "0123456789abcdef" * 2
ID = "fedcba9876543210" * 4


@pytest.fixture
def node(tmp_path):
    (tmp_path / "logs").mkdir()

    class Node:
        finder = PodFinder(str(tmp_path / "logs"), proc=str(tmp_path), clock=lambda: 0.0)

        def process(self, pid, *lines):
            folder = Path(tmp_path, str(pid))
            folder.mkdir()
            (folder / "cgroup").write_text("".join(f"{line}\n" for line in lines))

        def mounts(self, pid, *lines):
            text = "".join(f"{line}\n" for line in lines)
            Path(tmp_path, str(pid), "mountinfo").write_text(text)

        def logs(self, name):
            (tmp_path / "logs" / name).mkdir()

    return Node()


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(f"0::/kubepods/burstable/pod{UID}/{ID}", id="cgroupfs"),
        pytest.param(
            f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UNDERSCORED}.slice"
            f"/cri-containerd-{ID}.scope",
            id="systemd",
        ),
        pytest.param(
            f"0::/../../kubepods-burstable-pod{UNDERSCORED}.slice/crio-{ID}.scope/inner",
            id="from-a-cgroup-namespace",
        ),
        pytest.param(f"4:memory:/kubepods/besteffort/pod{UID}", id="version-1"),
    ],
)
def test_the_uid_is_read_off_the_cgroup(node, path):
    node.process(7, "1:name=systemd:/", path)
    node.logs(f"shop_orders-1_{UID}")
    assert node.finder.pod_of([7]) == Pod(UID, "shop", "orders-1")


def test_a_kubelet_without_cgroups_for_pods_tells_it_by_what_it_mounts(node):
    node.process(7, f"0::/k8s.io/{ID}")
    mount = f"192 175 254:0 /var/lib/kubelet/pods/{UID}/etc-hosts /etc/hosts rw - ext4 /dev/vda rw"
    node.mounts(7, "30 1 0:1 / / rw - overlay overlay rw", mount)
    # What holds the network open has no mounts of its own.
    node.process(6, f"0::/k8s.io/{ID[::-1]}")
    node.logs(f"shop_orders-1_{UID}")
    assert node.finder.pod_of([6, 7]) == Pod(UID, "shop", "orders-1")


def test_the_machines_network_is_no_pods_though_one_pod_is_in_it(node):
    node.process(1, "0::/init.scope")
    node.process(7, f"0::/kubepods/pod{UID}/{ID}")
    assert node.finder.pod_of([1, 7]) == NOT_KNOWN


def test_a_static_pods_uid_is_a_hash(node):
    node.process(7, f"0::/kubepods/pod{HASH}/{ID}")
    assert node.finder.pod_of([7]) == Pod(HASH)


def test_without_the_kubelets_folder_the_uid_is_shown(node):
    node.process(7, f"0::/kubepods/pod{UID}/{ID}")
    pod = node.finder.pod_of([7])
    assert (pod.namespace, pod.shown) == ("", UID)


def test_a_container_outside_of_a_cluster_is_shown_by_its_id(node):
    node.process(7, f"0::/system.slice/docker-{ID}.scope")
    assert node.finder.pod_of([7]).shown == ID[:12]


def test_processes_of_several_pods_are_nobodys(node):
    node.process(7, f"0::/kubepods/pod{UID}/{ID}")
    node.process(8, f"0::/kubepods/pod{HASH}/{ID}")
    assert node.finder.pod_of([7, 8]) == NOT_KNOWN


def test_a_process_that_ended_and_one_of_no_container_are_nobodys(node):
    node.process(1, "0::/user.slice/podcast.service")
    assert node.finder.pod_of([1, 99]) == NOT_KNOWN


def test_a_folder_that_is_no_pods_is_passed_over(node):
    node.process(7, f"0::/kubepods/pod{UID}/{ID}")
    node.logs("lost+found")
    node.logs(f"a_b_c_{UID}")
    assert node.finder.pod_of([7]) == Pod(UID)
