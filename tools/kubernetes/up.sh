#!/usr/bin/env bash
# Start a real single-node Kubernetes of what build.sh built: etcd, API server, controller manager, scheduler,
# containerd, kubelet. Root, runc and iptables are needed; nothing outside $FOLDER and /run/brokerwire-containerd
# stays after down.sh. Made for a virtual machine without registry and with cgroup v1 as well as v2.
#   FOLDER=/tmp/x tools/kubernetes/up.sh [api]     api: without a node
set -euo pipefail
repository=$(cd "$(dirname "$0")/../.." && pwd)
BIN=${BIN:-${BROKERWIRE_CACHE:-$repository/.cache}/kubernetes/bin}
FOLDER=${FOLDER:-${BROKERWIRE_CACHE:-$repository/.cache}/kubernetes/cluster}
STATE=${STATE:-/run/brokerwire-containerd}
API=127.7.7.7 NODE=10.244.255.1 MODE=${1:-full} SOCKET=$STATE/containerd.sock
PLUGINS=$(dirname "$BIN")/cni
export PATH=$BIN:$PATH
needed() { echo "$1: run $2" >&2; exit 2; }
# Its address and its containers' folder are the machine's: there is one cluster at a time.
[ ! -e "$STATE" ] || needed "$STATE is there, of a cluster that runs or was left" tools/kubernetes/down.sh
for each in bridge host-local loopback portmap; do
  [ -x "$PLUGINS/$each" ] || needed "there is no CNI plugin $PLUGINS/$each" tools/kubernetes/build.sh
done
for each in runc iptables; do
  command -v $each >/dev/null || needed "there is no $each" tools/install_container_tools.sh
done
mkdir -p "$FOLDER"/{cni,log,pid}
cd "$FOLDER"

if [ ! -f ca.crt ]; then (
  umask 077
  openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.crt -days 30 -subj /CN=brokerwire-test-ca 2>/dev/null
  openssl req -newkey rsa:2048 -nodes -keyout kc.key -out kc.csr -subj /O=system:masters/CN=apiserver-kubelet-client 2>/dev/null
  openssl x509 -req -in kc.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -out kc.crt 2>/dev/null
  openssl genrsa -out sa.key 2048 2>/dev/null
  echo "$(openssl rand -hex 16),admin,admin,system:masters" >tokens.csv
); fi
cat >kubeconfig <<K
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://$API:6443", insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: $(cut -d, -f1 tokens.csv)}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
K
export KUBECONFIG=$FOLDER/kubeconfig

start() { local name=$1; shift; setsid "$@" >"log/$name.log" 2>&1 </dev/null & echo $! >"pid/$name"; }
wait_for() { local what=$1; shift; for _ in $(seq 240); do "$@" >/dev/null 2>&1 && return; sleep 0.5; done; echo "$what did not come up" >&2; tail -n 10 log/*.log >&2; exit 1; }

ip addr show dev lo | grep -q "$NODE" || ip addr add $NODE/32 dev lo
start etcd etcd --data-dir etcd --listen-client-urls http://$API:2379 --advertise-client-urls http://$API:2379 \
  --listen-peer-urls http://$API:2380 --initial-advertise-peer-urls http://$API:2380 \
  --initial-cluster default=http://$API:2380
without_node=()
[ "$MODE" = full ] || without_node=(--disable-admission-plugins=ServiceAccount)
start apiserver kube-apiserver --etcd-servers=http://$API:2379 --bind-address=$API --secure-port=6443 \
  --advertise-address=$NODE --cert-dir=certs --service-account-issuer=https://kubernetes.default.svc \
  --service-account-signing-key-file=sa.key --service-account-key-file=sa.key --token-auth-file=tokens.csv \
  --authorization-mode=Node,RBAC --service-cluster-ip-range=10.96.0.0/16 --allow-privileged --client-ca-file=ca.crt \
  --kubelet-client-certificate=kc.crt --kubelet-client-key=kc.key --kubelet-preferred-address-types=InternalIP \
  "${without_node[@]}"
wait_for "the API server" kubectl get --raw /readyz
[ "$MODE" = full ] || { echo "export KUBECONFIG=$KUBECONFIG"; exit 0; }
start controllers kube-controller-manager --kubeconfig=kubeconfig --bind-address=$API \
  --service-account-private-key-file=sa.key --root-ca-file=ca.crt --leader-elect=false \
  --controllers='*,-node-ipam-controller,-node-route-controller,-service-lb-controller'
start scheduler kube-scheduler --kubeconfig=kubeconfig --bind-address=$API --leader-elect=false

cat >cni/10-test.conflist <<K
{"cniVersion": "0.4.0", "name": "brokerwire", "plugins": [
 {"type": "bridge", "bridge": "bwtest0", "isGateway": true, "ipMasq": true,
  "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
 {"type": "portmap", "capabilities": {"portMappings": true}}]}
K
cat >containerd.toml <<K
version = 3
root = "$FOLDER/containerd"
state = "$STATE"
[grpc]
  address = "$SOCKET"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = "localhost/pause:1"
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
      BinaryName = "$(command -v runc)"
      SystemdCgroup = false
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ["$PLUGINS"]
    conf_dir = "$FOLDER/cni"
K
cat >kubelet.yaml <<K
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: $NODE
healthzBindAddress: $API
containerRuntimeEndpoint: unix://$SOCKET
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
cgroupsPerQOS: false
enforceNodeAllocatable: []
localStorageCapacityIsolation: false
makeIPTablesUtilChains: false
oomScoreAdj: 0
authentication: {anonymous: {enabled: false}, webhook: {enabled: false}, x509: {clientCAFile: $FOLDER/ca.crt}}
authorization: {mode: AlwaysAllow}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
evictionHard: {memory.available: "100Mi"}
resolvConf: /etc/resolv.conf
K
# In a mount namespace of its own: the sysctls that a kubelet writes are files of ours there.
cat >node.sh <<'K'
set -u
mount --make-rprivate /
for pair in vm/overcommit_memory=1 kernel/panic=10 kernel/panic_on_oops=1; do
  key=${pair%=*} file=$(basename "${pair%=*}")
  echo "${pair#*=}" >"$file"
  mount --bind "$file" "/proc/sys/$key"
done
mount --make-rshared /
containerd -c containerd.toml >log/containerd.log 2>&1 &
echo $! >pid/containerd
for _ in $(seq 80); do ctr -a "$SOCKET" version >/dev/null 2>&1 && break; sleep 0.25; done
kubelet --config kubelet.yaml --kubeconfig kubeconfig --hostname-override node1 --node-ip "$NODE" \
  --root-dir "$FOLDER/kubelet" --cert-dir "$FOLDER/kubelet-pki" >log/kubelet.log 2>&1 &
echo $! >pid/kubelet
wait
K
export FOLDER NODE SOCKET
setsid nohup unshare -m bash node.sh >log/node.log 2>&1 </dev/null &
is_ready() { kubectl get node node1 | grep -q ' Ready'; }
wait_for "the node" is_ready
echo "export KUBECONFIG=$KUBECONFIG"
