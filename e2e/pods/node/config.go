// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"text/template"
)

//go:embed files
var files embed.FS

// values are what the templates in files are filled with.
type values struct {
	Dir, Socket, Hostname, Cgroup string
	PodNet, DNS                   string
	PauseImage, DNSImage          string
	Snapshotter, Runc, CNI        string
}

func (n *Node) render(name string) (string, error) {
	t, err := template.ParseFS(files, "files/"+name)
	if err != nil {
		return "", err
	}
	snapshotter, err := snapshotterFor(n.site.Dir)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	err = t.Execute(&text, values{
		Dir: filepath.Clean(n.path(".")), Socket: n.socket(), Hostname: n.hostname(), Cgroup: n.cgroup(),
		PodNet: n.podNet(), DNS: n.DNS(), PauseImage: pauseImage, DNSImage: dnsImage,
		Snapshotter: snapshotter, Runc: n.program("runc"), CNI: filepath.Dir(n.program("ptp")),
	})
	return text.String(), err
}

// snapshotterFor chooses how containers share the files of their image: one overlay cannot lie on another.
func snapshotterFor(dir string) (string, error) {
	const overlayMagic = 0x794c7630
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return "", fmt.Errorf("file system of %s: %w", dir, err)
	}
	if fs.Type == overlayMagic {
		return "native", nil
	}
	return "overlayfs", nil
}

// writeFiles writes the configuration of every part.
func (n *Node) writeFiles() error {
	for name, path := range map[string]string{
		"containerd.toml": "containerd.toml", "kubelet.yaml": "kubelet.yaml", "proxy.yaml": "proxy.yaml",
		"cni.conflist": "cni/10-pods.conflist",
	} {
		text, err := n.render(name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(n.path(path), []byte(text), 0o644); err != nil {
			return err
		}
	}
	for user, path := range map[string]string{"admin": n.Kubeconfig(), "kubelet": n.path("kubelet.kubeconfig")} {
		if err := n.writeKubeconfig(path, user); err != nil {
			return err
		}
	}
	spec, err := json.Marshal(n.spec())
	if err != nil {
		return err
	}
	return os.WriteFile(n.path("init.json"), spec, 0o600)
}

// spec is what pid 1 of the node is told.
func (n *Node) spec() spec {
	pki := func(file string) string { return filepath.Join(n.path("pki"), file) }
	return spec{
		Dir: filepath.Clean(n.path(".")), Hostname: n.hostname(), Address: n.IP + prefix, Gateway: gateway,
		First: []part{
			n.part("etcd", "--name=e", "--data-dir="+n.path("etcd"),
				"--listen-client-urls=http://127.0.0.1:2379", "--advertise-client-urls=http://127.0.0.1:2379",
				"--listen-peer-urls=http://127.0.0.1:2380", "--initial-advertise-peer-urls=http://127.0.0.1:2380",
				"--initial-cluster=e=http://127.0.0.1:2380", "--unsafe-no-fsync", "--log-level=warn"),
			n.part("containerd", "-c", n.path("containerd.toml")),
			n.part("kube-apiserver", "--etcd-servers=http://127.0.0.1:2379", "--bind-address=0.0.0.0",
				"--advertise-address="+n.IP, "--secure-port=6443", "--service-cluster-ip-range="+n.serviceNet(),
				"--tls-cert-file="+pki("apiserver.crt"), "--tls-private-key-file="+pki("apiserver.key"),
				"--client-ca-file="+pki("ca.crt"), "--service-account-key-file="+pki("service-account.key"),
				"--service-account-signing-key-file="+pki("service-account.key"),
				"--service-account-issuer=https://kubernetes.default.svc", "--authorization-mode=Node,RBAC",
				"--enable-admission-plugins=NodeRestriction", "--allow-privileged=true",
				"--kubelet-client-certificate="+pki("admin.crt"), "--kubelet-client-key="+pki("admin.key"),
				"--kubelet-certificate-authority="+pki("ca.crt"), "--kubelet-preferred-address-types=InternalIP",
				"--requestheader-client-ca-file="+pki("ca.crt"), "--requestheader-allowed-names=front-proxy",
				"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
				"--requestheader-extra-headers-prefix=X-Remote-Extra-",
				"--proxy-client-cert-file="+pki("front-proxy.crt"), "--proxy-client-key-file="+pki("front-proxy.key"),
				"--profiling=false"),
		},
		Second: []part{
			n.part("kube-controller-manager", "--kubeconfig="+n.Kubeconfig(), "--leader-elect=false",
				"--service-account-private-key-file="+pki("service-account.key"), "--root-ca-file="+pki("ca.crt"),
				"--cluster-signing-cert-file="+pki("ca.crt"), "--cluster-signing-key-file="+pki("ca.key"),
				"--use-service-account-credentials=false", "--profiling=false"),
			n.part("kube-scheduler", "--kubeconfig="+n.Kubeconfig(), "--leader-elect=false", "--profiling=false"),
			n.part("kubelet", "--config="+n.path("kubelet.yaml"), "--kubeconfig="+n.path("kubelet.kubeconfig"),
				"--root-dir="+n.path("kubelet"), "--cert-dir="+n.path("kubelet/pki"),
				"--hostname-override="+n.hostname(), "--node-ip="+n.IP, "--v=2"),
			n.part("kube-proxy", "--config="+n.path("proxy.yaml"), "--v=2"),
		},
	}
}

func (n *Node) part(program string, args ...string) part {
	return part{Name: program, Path: n.program(program), Args: args}
}
