package durable

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"toolhost.dev/sdk/tooltest/need"

	"toolhost.dev/host/cmd/test/hosttest"
)

// engineUser is the user without privileges that runs the container engine. No account of the machine has this number.
const engineUser = 61234

// engine is a rootless podman from Debian packages, in its own mount namespace.
type engine struct {
	t    *testing.T
	home string
	root string
}

// newEngine prepares podman. In the mount namespace of podman, /etc defines the user with a range of user IDs.
func newEngine(t *testing.T) *engine {
	t.Helper()
	podman := hosttest.DebianProgram(t, "bin/podman")
	if os.Getuid() != 0 {
		need.Missing(t, "only root can prepare a user with a range of user IDs")
	}
	home, err := os.MkdirTemp("", "th") // a short path with directories that the user may enter
	hosttest.Must(t, err)
	e := &engine{t: t, home: home, root: filepath.Dir(filepath.Dir(filepath.Dir(podman)))}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // the test's context has ended
		defer cancel()
		out, err := e.commandContext(ctx, "podman system reset --force; podman unshare rm -rf graph; podman system migrate").CombinedOutput()
		if err != nil {
			t.Errorf("podman was not cleaned up: %v: %s", err, out)
		}
		for len(e.processes()) > 0 && ctx.Err() == nil { // they end a moment after the command that ends them
			time.Sleep(50 * time.Millisecond)
		}
		for _, pid := range e.processes() {
			t.Errorf("the process %d of podman is left", pid)
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		hosttest.Must(t, os.RemoveAll(home))
	})
	hosttest.Must(t, os.Chmod(home, 0o755))
	hosttest.Must(t, exec.CommandContext(t.Context(), "cp", "-a", "/etc", filepath.Join(home, "etc")).Run())
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		hosttest.Must(t, os.WriteFile(filepath.Join(home, name), []byte(text), mode))
	}
	passwd, err := os.ReadFile("/etc/passwd")
	hosttest.Must(t, err)
	write("etc/passwd", fmt.Sprintf("%sengine:x:%d:%[2]d::%s:/bin/sh\n", passwd, engineUser, home), 0o644)
	for _, name := range []string{"subuid", "subgid"} {
		write("etc/"+name, "engine:200000:65536\n", 0o644)
	}
	write("containers.conf", fmt.Sprintf(`[engine]
runtime = "crun"
conmon_path = [%[1]q]
helper_binaries_dir = [%[2]q, %[3]q]
cgroup_manager = "cgroupfs"
events_logger = "file"
[engine.runtimes]
crun = [%[4]q]
`, e.root+"/usr/bin/conmon", e.root+"/usr/lib/podman", e.root+"/usr/libexec/podman", e.root+"/usr/bin/crun"), 0o644)
	write("storage.conf", fmt.Sprintf("[storage]\ndriver = \"overlay\"\nrunroot = %q\ngraphroot = %q\n", home+"/storage", home+"/graph"), 0o644)
	write("policy.json", `{"default":[{"type":"insecureAcceptAnything"}]}`, 0o644)
	hosttest.Must(t, os.Mkdir(filepath.Join(home, "bin"), 0o755))
	for _, name := range []string{"newuidmap", "newgidmap"} {
		program, err := os.ReadFile(filepath.Join(e.root, "usr/bin", name))
		hosttest.Must(t, err)
		write("bin/"+name, string(program), 0o755)
		hosttest.Must(t, os.Chmod(filepath.Join(home, "bin", name), 0o755|os.ModeSetuid))
	}
	write("env", fmt.Sprintf("export HOME=%[1]s XDG_RUNTIME_DIR=%[1]s/runtime PATH=%[1]s/bin:%[2]s/usr/bin:$PATH CONTAINERS_CONF=%[1]s/containers.conf CONTAINERS_STORAGE_CONF=%[1]s/storage.conf\ncd %[1]s\n", home, e.root), 0o644)
	for _, name := range []string{".", "runtime", "storage", "graph", "run", "work"} {
		hosttest.Must(t, os.MkdirAll(filepath.Join(home, name), 0o755))
		hosttest.Must(t, os.Chown(filepath.Join(home, name), engineUser, engineUser))
	}
	return e
}

// processes returns the ids of the processes that have the environment of this engine.
func (e *engine) processes() (pids []int) {
	for _, p := range hosttest.Descendants() {
		if p.HasEnv(func(v string) bool { return strings.HasPrefix(v, "XDG_RUNTIME_DIR="+e.home+"/") }) {
			pids = append(pids, p.PID)
		}
	}
	return pids
}

// command returns a command that runs a script as the user of the engine. The command ends with the test.
func (e *engine) command(script string) *exec.Cmd { return e.commandContext(e.t.Context(), script) }

func (e *engine) commandContext(ctx context.Context, script string) *exec.Cmd {
	// crun fails if cgroups of both versions are mounted, and the engine does not need cgroups.
	inside := e.open() + fmt.Sprintf("umount /sys/fs/cgroup/unified 2>/dev/null; mount --bind %[1]s/etc /etc && exec setpriv --reuid %[2]d --regid %[2]d --clear-groups --inh-caps=-all sh -c '. %[1]s/env; '\"$0\"", e.home, engineUser)
	c := exec.CommandContext(ctx, "unshare", "-m", "sh", "-c", inside, script)
	c.Dir = "/"
	return c
}

// open returns the shell commands that let other users enter the directory of the Debian packages. It is in the cache
// of this user, which can be closed to others.
func (e *engine) open() string {
	closed := ""
	for dir := e.root; dir != "/"; dir = filepath.Dir(dir) {
		if st, err := os.Stat(dir); err != nil || st.Mode()&1 == 0 {
			closed = dir
		}
	}
	if closed == "" {
		return ""
	}
	return fmt.Sprintf("mkdir -p %[1]s/packages && mount --bind %[2]s %[1]s/packages && mount -t tmpfs -o mode=755 tmpfs %[3]s && mkdir -p %[2]s && mount --bind %[1]s/packages %[2]s && ", e.home, e.root, closed)
}

// run returns the shell command that starts a container.
func (e *engine) run(options, arguments string) string {
	return "podman run --rm --signature-policy policy.json --cgroups=disabled --network none --ulimit nofile=1024:1024 --ulimit nproc=1000:1000 " + options + " toolhost " + arguments
}

// copyRelease makes a directory with the programs of a release. Other users can run these programs.
func copyRelease(t *testing.T, to string) {
	t.Helper()
	hosttest.Must(t, os.Mkdir(to, 0o755))
	for _, name := range []string{"toolhost", "toolhost-shim", "toolhost-sandbox", "plugins"} {
		hosttest.Must(t, exec.CommandContext(t.Context(), "cp", "-al", filepath.Join(hosttest.Bin, name), to).Run())
	}
}

// TestContainer checks the documented image with rootless podman. With the documented option, the sandbox must be
// complete in the container. Without the option, "toolhost doctor" must recommend it. A server in the container must
// answer on its socket, and must end when it is asked to.
func TestContainer(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	base := filepath.Join(e.home, "base")
	busybox, err := os.ReadFile(filepath.Join(e.root, "bin/busybox"))
	hosttest.Must(t, err)
	hosttest.Must(t, os.MkdirAll(filepath.Join(base, "bin"), 0o755))
	hosttest.Must(t, os.WriteFile(filepath.Join(base, "bin/busybox"), busybox, 0o755))
	for _, name := range []string{"sh", "cat", "chmod", "chown", "id", "ls", "mkdir", "rm", "sleep"} {
		hosttest.Must(t, os.Symlink("busybox", filepath.Join(base, "bin", name)))
	}
	bash, err := exec.LookPath("bash")
	hosttest.Must(t, err)
	libraries, err := exec.CommandContext(t.Context(), "ldd", bash).Output()
	hosttest.Must(t, err)
	for _, file := range append(strings.Fields(string(libraries)), bash) {
		if strings.HasPrefix(file, "/") {
			hosttest.Must(t, exec.CommandContext(t.Context(), "install", "-D", file, base+file).Run())
		}
	}
	hosttest.Must(t, os.MkdirAll(base+"/etc", 0o755))
	hosttest.Must(t, os.Mkdir(base+"/tmp", 0o700))
	hosttest.Must(t, os.Chmod(base+"/tmp", 0o777|os.ModeSticky))
	hosttest.Must(t, os.WriteFile(e.home+"/Containerfile.base", []byte("FROM scratch\nCOPY . /\n"), 0o644))
	file := filepath.Join(e.home, "Containerfile") // a copy, because the user of the engine may not be allowed to enter the repository
	containerfile, err := os.ReadFile("../../../../docs/service/Containerfile")
	hosttest.Must(t, err)
	hosttest.Must(t, os.WriteFile(file, containerfile, 0o644))
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
	// Use one mount for both directories, because branches need that.
	for _, name := range []string{"srv", "srv/work", "srv/state"} {
		hosttest.Must(t, os.Mkdir(filepath.Join(e.home, name), 0o700))
		hosttest.Must(t, os.Chmod(filepath.Join(e.home, name), 0o777))
	}
	if out := doctor("--security-opt unmask=ALL -v ./srv:/srv", "--workspace /srv/work --state /srv/state"); !strings.Contains(out, "container             podman\n") || !strings.Contains(out, "read: backend ns") || !strings.Contains(out, "branches              yes") {
		t.Errorf("with the option: %s", out)
	}

	hosttest.Must(t, os.WriteFile(e.home+"/work/a.txt", []byte("in the workspace\n"), 0o666))
	for _, name := range []string{"work", "run"} {
		hosttest.Must(t, os.Chmod(filepath.Join(e.home, name), 0o777))
	}
	server := e.command("exec " + e.run("--name served --security-opt unmask=ALL -v ./work:/workspace -v ./run:/run/toolhost -e TOOLHOST_TOKEN=secret", ""))
	server.Stderr = t.Output()
	hosttest.Must(t, server.Start())
	t.Cleanup(func() { _ = server.Process.Kill() })
	curl := func(path, body string) string {
		args := []string{"-sS", "--max-time", "30", "--unix-socket", e.home + "/run/toolhost.sock", "-H", "Authorization: Bearer secret", "http://unix" + path}
		if body != "" {
			args = append(args, "-d", body)
		}
		out, _ := exec.CommandContext(t.Context(), "curl", args...).CombinedOutput() // the caller checks the text
		return string(out)
	}
	hosttest.Wait(t, "the server in the container is ready", func() bool { return strings.Contains(curl("/readyz", ""), "ok") })
	answer := curl("/v1/run", `{"command":"cat a.txt; id -u; cat /proc/1/comm; echo made > b.txt; ls /state /root"}`)
	for _, want := range []string{"in the workspace", "10001", "No such file"} {
		if !strings.Contains(answer, want) {
			t.Errorf("the answer lacks %q: %s", want, answer)
		}
	}
	if _, err := os.Stat(e.home + "/work/b.txt"); err != nil {
		t.Error(err)
	}
	hosttest.Must(t, server.Process.Signal(syscall.SIGTERM)) // podman forwards the signal
	if err := server.Wait(); err != nil {
		t.Errorf("the server ended with %v", err)
	}
}
