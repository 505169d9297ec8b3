package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"toolhost.dev/host/internal/testneed"
)

// engineUser is the user without privileges that runs the container engine. No account of the machine has this number.
const engineUser = 61234

// engine is a rootless podman in a mount namespace of its own, with the programs of Debian.
type engine struct {
	t    *testing.T
	home string
	root string
}

// newEngine prepares the settings of podman. Its /etc has a user with a range of user IDs.
func newEngine(t *testing.T) *engine {
	t.Helper()
	podman, libraries := debianProgram(t, "podman")
	if os.Getuid() != 0 {
		testneed.Missing(t, "only root can prepare a user with a range of user IDs")
	}
	home, err := os.MkdirTemp("", "th") // short, and searchable for the user
	must(t, err)
	e := &engine{t: t, home: home, root: filepath.Dir(filepath.Dir(filepath.Dir(podman)))}
	t.Cleanup(func() {
		_ = e.command("podman system reset --force; podman unshare rm -rf graph").Run()
		_ = os.RemoveAll(home)
	})
	must(t, os.Chmod(home, 0o755))
	must(t, exec.CommandContext(t.Context(), "cp", "-a", "/etc", filepath.Join(home, "etc")).Run())
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		must(t, os.WriteFile(filepath.Join(home, name), []byte(text), mode))
	}
	passwd, err := os.ReadFile("/etc/passwd")
	must(t, err)
	write("etc/passwd", fmt.Sprintf("%sengine:x:%d:%[2]d::%s:/bin/sh\n", passwd, engineUser, home), 0o644)
	for _, name := range []string{"subuid", "subgid"} {
		write("etc/"+name, "engine:200000:65536\n", 0o644)
	}
	for _, name := range []string{"crun", "conmon"} { // podman starts them without the variable
		write(name, fmt.Sprintf("#!/bin/sh\n%s exec %s/usr/bin/%s \"$@\"\n", libraries, e.root, name), 0o755)
	}
	write("containers.conf", fmt.Sprintf(`[engine]
runtime = "crun"
conmon_path = [%[1]q]
helper_binaries_dir = [%[2]q, %[3]q]
cgroup_manager = "cgroupfs"
events_logger = "file"
[engine.runtimes]
crun = [%[4]q]
`, home+"/conmon", e.root+"/usr/lib/podman", e.root+"/usr/libexec/podman", home+"/crun"), 0o644)
	write("storage.conf", fmt.Sprintf("[storage]\ndriver = \"overlay\"\nrunroot = %q\ngraphroot = %q\n", home+"/storage", home+"/graph"), 0o644)
	write("policy.json", `{"default":[{"type":"insecureAcceptAnything"}]}`, 0o644)
	must(t, os.Mkdir(filepath.Join(home, "bin"), 0o755))
	for _, name := range []string{"newuidmap", "newgidmap"} {
		program, err := os.ReadFile(filepath.Join(e.root, "usr/bin", name))
		must(t, err)
		write("bin/"+name, string(program), 0o755)
		must(t, os.Chmod(filepath.Join(home, "bin", name), 0o755|os.ModeSetuid))
	}
	write("env", fmt.Sprintf("export HOME=%[1]s XDG_RUNTIME_DIR=%[1]s/runtime PATH=%[1]s/bin:%[2]s/usr/bin:$PATH %[3]s CONTAINERS_CONF=%[1]s/containers.conf CONTAINERS_STORAGE_CONF=%[1]s/storage.conf\ncd %[1]s\n", home, e.root, libraries), 0o644)
	for _, name := range []string{".", "runtime", "storage", "graph", "run", "work"} {
		must(t, os.MkdirAll(filepath.Join(home, name), 0o755))
		must(t, os.Chown(filepath.Join(home, name), engineUser, engineUser))
	}
	return e
}

// command returns a script that the user of the engine runs.
func (e *engine) command(script string) *exec.Cmd {
	// crun refuses cgroups of both versions, and the engine does not need them.
	inside := fmt.Sprintf("umount /sys/fs/cgroup/unified 2>/dev/null; mount --bind %[1]s/etc /etc && exec setpriv --reuid %[2]d --regid %[2]d --clear-groups --inh-caps=-all sh -c '. %[1]s/env; '\"$0\"", e.home, engineUser)
	c := exec.CommandContext(e.t.Context(), "unshare", "-m", "sh", "-c", inside, script)
	c.Dir = "/"
	return c
}

// run returns the command that starts a container.
func (e *engine) run(options, arguments string) string {
	return "podman run --rm --signature-policy policy.json --cgroups=disabled --network none --ulimit nofile=1024:1024 --ulimit nproc=1000:1000 " + options + " toolhost " + arguments
}

// copyRelease makes a directory with the programs of a release, which other users can run.
func copyRelease(t *testing.T, to string) {
	t.Helper()
	must(t, os.Mkdir(to, 0o755))
	for _, name := range []string{"toolhost", "toolhost-shim", "toolhost-sandbox", "plugins"} {
		must(t, exec.CommandContext(t.Context(), "cp", "-al", filepath.Join(bin, name), to).Run())
	}
}

// TestContainer builds the documented image with rootless podman. The sandbox is complete in it with the documented option, and
// without it doctor names the option. A server in the container answers on its socket and stops in time.
func TestContainer(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	base := filepath.Join(e.home, "base")
	busybox, err := os.ReadFile(filepath.Join(e.root, "bin/busybox"))
	must(t, err)
	must(t, os.MkdirAll(filepath.Join(base, "bin"), 0o755))
	must(t, os.WriteFile(filepath.Join(base, "bin/busybox"), busybox, 0o755))
	for _, name := range []string{"sh", "cat", "chmod", "chown", "id", "ls", "mkdir", "rm", "sleep"} {
		must(t, os.Symlink("busybox", filepath.Join(base, "bin", name)))
	}
	bash, err := exec.LookPath("bash")
	must(t, err)
	libraries, err := exec.CommandContext(t.Context(), "ldd", bash).Output()
	must(t, err)
	for _, file := range append(strings.Fields(string(libraries)), bash) {
		if strings.HasPrefix(file, "/") {
			must(t, exec.CommandContext(t.Context(), "install", "-D", file, base+file).Run())
		}
	}
	must(t, os.MkdirAll(base+"/etc", 0o755))
	must(t, os.Mkdir(base+"/tmp", 0o700))
	must(t, os.Chmod(base+"/tmp", 0o777|os.ModeSticky))
	must(t, os.WriteFile(e.home+"/Containerfile.base", []byte("FROM scratch\nCOPY . /\n"), 0o644))
	file, err := filepath.Abs("../../../docs/service/Containerfile")
	must(t, err)
	release := filepath.Join(e.home, "release")
	copyRelease(t, release)
	build := "buildah bud --isolation chroot --signature-policy policy.json "
	out, err := e.command(build + "-f Containerfile.base -t localhost/base base && " + build + "--build-arg BASE=localhost/base --build-arg PACKAGES= -f " + file + " -t toolhost release").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}

	doctor := func(options, arguments string) string {
		t.Helper()
		out, err := e.command(e.run(options, "doctor "+arguments)).Output()
		if err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return string(out)
	}
	if out := doctor("", ""); !strings.Contains(out, "container             podman, which does not permit the namespaces of the sandbox: start it with --security-opt unmask=ALL") || !strings.Contains(out, "read: backend landlock") {
		t.Errorf("without the option: %s", out)
	}
	for _, name := range []string{"srv", "srv/work", "srv/state"} { // in one mount, as branches need it
		must(t, os.Mkdir(filepath.Join(e.home, name), 0o700))
		must(t, os.Chmod(filepath.Join(e.home, name), 0o777))
	}
	if out := doctor("--security-opt unmask=ALL -v ./srv:/srv", "--workspace /srv/work --state /srv/state"); !strings.Contains(out, "container             podman\n") || !strings.Contains(out, "read: backend ns") || !strings.Contains(out, "branches              yes") {
		t.Errorf("with the option: %s", out)
	}

	must(t, os.WriteFile(e.home+"/work/a.txt", []byte("in the workspace\n"), 0o666))
	for _, name := range []string{"work", "run"} {
		must(t, os.Chmod(filepath.Join(e.home, name), 0o777))
	}
	server := e.command("exec " + e.run("--name served --security-opt unmask=ALL -v ./work:/workspace -v ./run:/run/toolhost -e TOOLHOST_TOKEN=secret", ""))
	server.Stderr = t.Output()
	must(t, server.Start())
	t.Cleanup(func() { _ = server.Process.Kill() })
	curl := func(path, body string) string {
		args := []string{"-sS", "--max-time", "30", "--unix-socket", e.home + "/run/toolhost.sock", "-H", "Authorization: Bearer secret", "http://unix" + path}
		if body != "" {
			args = append(args, "-d", body)
		}
		out, _ := exec.CommandContext(t.Context(), "curl", args...).CombinedOutput() // the caller checks the text
		return string(out)
	}
	eventually(t, "the server in the container is ready", func() bool { return strings.Contains(curl("/readyz", ""), "ok") })
	answer := curl("/v1/run", `{"command":"cat a.txt; id -u; cat /proc/1/comm; echo made > b.txt; ls /state /root"}`)
	for _, want := range []string{"in the workspace", "10001", "No such file"} {
		if !strings.Contains(answer, want) {
			t.Errorf("the answer lacks %q: %s", want, answer)
		}
	}
	if _, err := os.Stat(e.home + "/work/b.txt"); err != nil {
		t.Error(err)
	}
	must(t, server.Process.Signal(syscall.SIGTERM)) // podman passes it on
	if err := server.Wait(); err != nil {
		t.Errorf("the server ended with %v", err)
	}
}
