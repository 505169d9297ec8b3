//go:build linux

package sandbox

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"toolhost.dev/host/cmd/test/hosttest"
)

// escape is one attempt to escape from the sandbox, as a command for the tool "bash".
type escape struct {
	name    string
	command string // prints ESCAPED after a successful escape, unless out is set
	// out reports whether the command changed something outside the sandbox.
	out func(w *world) bool
	// control is the user for whom the command must succeed without a sandbox. Empty means that it must succeed for
	// every user. "nobody" means that it succeeds for no user, because a protection outside of the sandbox also blocks
	// it.
	control string
	// leaks is true if the backend "landlock" does not block the command. The output of "toolhost doctor"
	// documents this gap.
	leaks bool
}

// world contains the targets outside of the sandbox.
type world struct {
	dir, work, victimDir, home string
	victim                     int // process id of another process of the same user
	tcp, tcp6, udp             int
	abstract, path             string
	shm                        int
	host                       atomic.Int64 // process id of the running host
}

func (w *world) outside(name string) string { return filepath.Join(w.victimDir, name) }

func (w *world) holds(name, text string) bool {
	b, err := os.ReadFile(w.outside(name))
	return err == nil && string(b) == text
}

func exists(name string) func(*world) bool {
	return func(w *world) bool { _, err := os.Lstat(w.outside(name)); return err == nil }
}

func gone(name string) func(*world) bool {
	return func(w *world) bool { return !exists(name)(w) }
}

var escapes = []escape{
	// The following escapes use file paths.
	{name: "read a file", command: `grep -q secret $OUT/secret && echo ESCAPED`},
	{name: "read by dot-dot", command: `grep -q secret ../outside/secret && echo ESCAPED`},
	{name: "list a directory", command: `ls $OUT | grep -q secret && echo ESCAPED`},
	{name: "enter a directory", command: `cd $OUT && grep -q secret secret && echo ESCAPED`},
	{name: "read a secret of the home directory", command: `grep -q secret ~/.ssh/id && echo ESCAPED`},
	{name: "write a new file", command: `echo x > $OUT/new`, out: exists("new")},
	{name: "write over a file", command: `echo changed > $OUT/over`, out: func(w *world) bool { return !w.holds("over", "whole\n") }},
	{name: "append to a file", command: `echo changed >> $OUT/append`, out: func(w *world) bool { return !w.holds("append", "whole\n") }},
	{name: "truncate a file", command: `truncate -s 0 $OUT/truncate`, out: func(w *world) bool { return !w.holds("truncate", "whole\n") }},
	{name: "remove a file", command: `rm -f $OUT/remove`, out: gone("remove")},
	{name: "move a file in", command: `mv $OUT/move .`, out: gone("move")},
	{name: "move a file out", command: `echo x > moved; mv moved $OUT/moved`, out: exists("moved")},
	{name: "make a directory", command: `mkdir $OUT/directory`, out: exists("directory")},
	{name: "make a FIFO", command: `mkfifo $OUT/fifo`, out: exists("fifo")},
	{name: "make a link", command: `ln -s / $OUT/link`, out: exists("link")},
	{name: "make a device", command: `mknod device b 8 0 && echo ESCAPED`, control: "root"},
	{name: "execute a program", command: `$OUT/program`},
	{name: "change a mode", command: `chmod 600 $OUT/mode`, leaks: true, out: func(w *world) bool {
		st, err := os.Stat(w.outside("mode"))
		return err == nil && st.Mode().Perm() != 0o644
	}},
	{name: "change times", command: `touch -d 2001-01-01 $OUT/times`, leaks: true, out: func(w *world) bool {
		st, err := os.Stat(w.outside("times"))
		return err == nil && st.ModTime().Year() == 2001
	}},
	{name: "write a start-up file", command: `echo x >> ~/.profile`, out: func(w *world) bool {
		_, err := os.Stat(filepath.Join(w.home, ".profile"))
		return err == nil
	}},
	{name: "plant a binary on the PATH", command: `cp /bin/true "$(dirname "$(command -v testescape)")/planted"`, out: func(*world) bool {
		return os.Remove(filepath.Join(hosttest.Bin, "planted")) == nil
	}, control: "root"},
	// The following escapes use links and races.
	{name: "read by a symbolic link", command: `ln -sf $OUT/secret soft; grep -q secret soft && echo ESCAPED`},
	{name: "write by a symbolic link", command: `ln -sfn $OUT soft-dir; echo x > soft-dir/by-link`, out: exists("by-link")},
	{name: "read by a hard link", command: `ln $OUT/secret hard; grep -q secret hard && echo ESCAPED`},
	// The loop runs for at least one second, because SECONDS changes only at full seconds.
	{name: "swap a link in a race", command: `mkdir -p inside; touch inside/secret; end=$((SECONDS+2))
		(while [ $SECONDS -lt $end ]; do ln -sfn inside swap; ln -sfn $OUT swap; done) &
		while [ $SECONDS -lt $end ]; do grep -sq secret swap/secret && echo ESCAPED && break; done; wait`},
	// The following escapes use access to processes outside the sandbox.
	{name: "see a process", command: `[ -d /proc/$VICTIM ] && echo ESCAPED`, leaks: true},
	{name: "read an environment", command: `tr '\0' '\n' < /proc/$VICTIM/environ | grep -q VICTIM_SECRET && echo ESCAPED`},
	{name: "reach a root through /proc", command: `grep -q secret /proc/$VICTIM/root$OUT/secret && echo ESCAPED`},
	{name: "reach a working directory through /proc", command: `grep -q secret /proc/$VICTIM/cwd/secret && echo ESCAPED`},
	{name: "read a descriptor through /proc", command: `ls -l /proc/$VICTIM/fd/ 2>/dev/null | grep -q '0 ->' && echo ESCAPED`},
	{name: "send a signal", command: `kill -0 $VICTIM && echo ESCAPED`},
	{name: "trace", command: `testescape ptrace $VICTIM`},
	{name: "read memory", command: `testescape read-memory $VICTIM`},
	{name: "steal a descriptor", command: `testescape steal-descriptor $VICTIM`},
	{name: "see limits of another", command: `testescape limit-other $VICTIM`},
	// The following escapes use namespaces and mounts.
	{name: "make a user namespace", command: `unshare -U true && echo ESCAPED`},
	{name: "make namespaces and mount", command: `unshare -Urm mount -t tmpfs none /mnt && echo ESCAPED`},
	{name: "make a network namespace", command: `unshare -n true && echo ESCAPED`, control: "root"},
	{name: "mount", command: `mkdir -p mnt; mount -t tmpfs none mnt && echo ESCAPED; umount mnt 2>/dev/null`, control: "root"},
	{name: "enter a namespace", command: `nsenter --mount=/proc/$VICTIM/ns/mnt true && echo ESCAPED`, control: "root"},
	{name: "change the root", command: `chroot / /bin/true && echo ESCAPED`, control: "root"},
	// The following escapes use kernel interfaces.
	{name: "write a setting of the kernel", command: `v=$(cat /proc/sys/vm/swappiness) && echo $v > /proc/sys/vm/swappiness && echo ESCAPED`, control: "root"},
	{name: "use io_uring", command: `testescape io_uring`},
	{name: "use the keyring", command: `testescape keyring`},
	{name: "load a BPF map", command: `testescape bpf`, control: "root"},
	{name: "handle page faults", command: `testescape userfaultfd`},
	{name: "count performance events", command: `testescape perf`, control: "root"},
	{name: "watch the file system", command: `testescape fanotify`, control: "root"},
	{name: "open by handle", command: `testescape open-by-handle`, control: "root"},
	{name: "type into a terminal", command: `testescape tiocsti`, control: "root"},
	{name: "set the host name", command: `hostname "$(hostname)" && echo ESCAPED`, control: "root"},
	{name: "become root", command: `cp /bin/true suid && chmod u+s suid; grep -q 'NoNewPrivs:.0' /proc/self/status && echo ESCAPED`},
	{name: "keep a dangerous capability", command: `n=$(sed -n 's/CapBnd:\s*//p' /proc/self/status); [ $((16#$n & (1<<21))) != 0 ] && grep -q 'NoNewPrivs:.0' /proc/self/status && echo ESCAPED`},
	// The following escapes use sockets.
	{name: "TCP to localhost", command: `testescape tcp $TCP`},
	{name: "TCP over IPv6", command: `testescape tcp6 $TCP6`},
	{name: "UDP to localhost", command: `testescape udp $UDP`},
	{name: "MPTCP", command: `testescape mptcp $TCP`},
	{name: "TCP fast open", command: `testescape fastopen $TCP`},
	{name: "bash's own TCP", command: `exec 9<>/dev/tcp/127.0.0.1/$TCP && echo ESCAPED`},
	{name: "an abstract Unix socket", command: `testescape abstract 0 $ABSTRACT`},
	{name: "a Unix socket with a path", command: `testescape path 0 $SOCKET`, leaks: true},
	{name: "a packet socket", command: `testescape family 17`, control: "root"},
	{name: "a raw socket", command: `testescape raw`, control: "root"},
	{name: "shared memory by key", command: `testescape shared-memory $SHM`},
	{name: "a file in shared memory", command: `touch /dev/shm/toolhost-$VICTIM`, out: func(w *world) bool {
		name := fmt.Sprint("/dev/shm/toolhost-", w.victim)
		_, err := os.Stat(name)
		_ = os.Remove(name)
		return err == nil
	}},
}

// TestEscapes tries all escapes with the real tool "bash". Under each sandbox backend, every escape must fail. Without
// a sandbox, each escape must succeed, which shows that it is a real attempt.
func TestEscapes(t *testing.T) {
	t.Parallel()
	eachBackend(t, []string{"root", "ordinary"}, func(t *testing.T, user string, b hosttest.SandboxBackend) {
		w := newWorld(t, user)
		outputs := w.run(t, b.Name, "")
		for i, e := range escapes {
			got := strings.Contains(outputs[i], "ESCAPED")
			if e.out != nil {
				got = e.out(w)
			}
			switch {
			case !b.Abilities.Confines && !got && (e.control == "" || e.control == user):
				t.Errorf("%s: the escape fails even without a sandbox, so the test proves nothing: %s", e.name, outputs[i])
			case !b.Abilities.OwnRoot && e.leaks: // "toolhost doctor" documents this gap
			case b.Abilities.Confines && got:
				t.Errorf("%s: the command escaped: %s", e.name, outputs[i])
			}
		}
	})
}

// eachBackend runs a test for each user and each backend that this machine supports. The backend that uses Landlock
// without namespaces is tested only with the newest version of Landlock.
func eachBackend(t *testing.T, users []string, test func(t *testing.T, user string, b hosttest.SandboxBackend)) {
	abi, backends := hosttest.Doctor(t)
	for _, user := range users {
		if user == "root" && os.Getuid() != 0 {
			continue
		}
		for _, b := range backends {
			t.Run(user+"/"+b.Name, func(t *testing.T) {
				switch {
				case b.Unusable != "":
					t.Skipf("this machine cannot use %s: %s", b.Name, b.Unusable)
				case b.Abilities.Confines && !b.Abilities.OwnRoot && abi < 6:
					t.Skipf("this machine has version %d of Landlock, and the test needs 6", abi)
				}
				test(t, user, b)
			})
		}
	}
}

const ordinary = 65534

func newWorld(t *testing.T, user string) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "th-escape")
	hosttest.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	w := &world{dir: dir, work: filepath.Join(dir, "work"), victimDir: filepath.Join(dir, "outside"), home: filepath.Join(dir, "home")}
	for _, d := range []string{w.work, w.victimDir, filepath.Join(w.home, ".ssh"), filepath.Join(dir, "run"), filepath.Join(dir, "state")} {
		hosttest.Must(t, os.MkdirAll(d, 0o700))
	}
	hosttest.KeptState(t, filepath.Join(dir, "state", "toolhost"))
	for _, name := range []string{"over", "append", "truncate", "remove", "move", "mode", "times"} {
		hosttest.Must(t, os.WriteFile(w.outside(name), []byte("whole\n"), 0o644))
	}
	hosttest.Must(t, os.WriteFile(w.outside("secret"), []byte("secret\n"), 0o644))
	hosttest.Must(t, os.WriteFile(filepath.Join(w.home, ".ssh", "id"), []byte("secret\n"), 0o600))
	hosttest.Must(t, os.WriteFile(w.outside("program"), []byte("#!/bin/sh\necho ESCAPED\n"), 0o755))
	if user == "ordinary" && os.Getuid() == 0 {
		hosttest.Must(t, exec.Command("chown", "-R", strconv.Itoa(ordinary), dir).Run())
		hosttest.Must(t, os.Chmod(hosttest.Bin, 0o755))
	}
	victim := w.command(user, "sleep", "300")
	victim.Dir, victim.Env = w.victimDir, []string{"VICTIM_SECRET=x"}
	hosttest.Must(t, victim.Start())
	t.Cleanup(func() { _ = victim.Process.Kill(); _ = victim.Wait() })
	w.victim = victim.Process.Pid
	w.shm = 0x7000000 + w.victim
	hosttest.Must(t, w.serve(t, user))
	return w
}

// command returns a command that runs as the given user.
func (w *world) command(user, name string, args ...string) *exec.Cmd {
	c := exec.Command(name, args...)
	if user == "ordinary" && os.Getuid() == 0 {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinary, Gid: ordinary}}
	}
	return c
}

// serve starts servers outside of the sandbox. The servers answer each received byte with one byte.
func (w *world) serve(t *testing.T, user string) error {
	answer := func(l net.Listener) {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				b := make([]byte, 1)
				_, _ = c.Read(b)
				_, _ = c.Write(b)
				_ = c.Close()
			}()
		}
	}
	w.abstract = fmt.Sprint("toolhost-escape-", w.victim)
	w.path = filepath.Join(w.dir, "s")
	for _, at := range []struct {
		network, address string
		port             *int
	}{{"tcp4", "127.0.0.1:0", &w.tcp}, {"tcp6", "[::1]:0", &w.tcp6}, {"unix", "@" + w.abstract, nil}, {"unix", w.path, nil}} {
		l, err := net.Listen(at.network, at.address)
		if err != nil {
			return err
		}
		t.Cleanup(func() { _ = l.Close() })
		if at.port != nil {
			*at.port = l.Addr().(*net.TCPAddr).Port
		}
		go answer(l)
	}
	if user == "ordinary" && os.Getuid() == 0 {
		if err := os.Chown(w.path, ordinary, ordinary); err != nil {
			return err
		}
	}
	// Create a shared memory segment, as a program outside the sandbox can do.
	id, _, errno := syscall.Syscall(syscall.SYS_SHMGET, uintptr(w.shm), 4096, 0o1000|0o666)
	if errno != 0 {
		return errno
	}
	t.Cleanup(func() { _, _, _ = syscall.Syscall(syscall.SYS_SHMCTL, id, 0, 0) })
	u, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return err
	}
	t.Cleanup(func() { _ = u.Close() })
	w.udp = u.LocalAddr().(*net.UDPAddr).Port
	go func() {
		b := make([]byte, 1)
		for {
			n, from, err := u.ReadFrom(b)
			if err != nil {
				return
			}
			_, _ = u.WriteTo(b[:n], from)
		}
	}()
	return nil
}

// run tries all escapes in one host and returns the output of each escape.
func (w *world) run(t *testing.T, backend, more string) []string {
	t.Helper()
	commands := make([]string, len(escapes))
	for i, e := range escapes {
		commands[i] = e.command
	}
	return w.batch(t, backend, more, commands...)
}

func (w *world) batch(t *testing.T, backend, more string, commands ...string) []string {
	t.Helper()
	user := "root"
	if st, err := os.Stat(w.work); err == nil && st.Sys().(*syscall.Stat_t).Uid == ordinary {
		user = "ordinary"
	}
	enforce := map[bool]string{true: "off", false: "require"}[backend == "none"]
	config := filepath.Join(w.dir, "toolhost.hcl")
	hosttest.Must(t, os.WriteFile(config, fmt.Appendf(nil, "sandbox {\n backend = %q\n enforce = %q\n}\npermissions {\n builtin = false\n}\nplugin \"bash\" {\n%s\n}\n", backend, enforce, more), 0o644))
	var in strings.Builder
	for i, c := range commands {
		vars := fmt.Sprintf("OUT=%s VICTIM=%d TCP=%d TCP6=%d UDP=%d ABSTRACT=%s SOCKET=%s SHM=%d\n", w.victimDir, w.victim, w.tcp, w.tcp6, w.udp, w.abstract, w.path, w.shm)
		b, err := json.Marshal(map[string]any{"id": i, "name": "bash", "arguments": map[string]any{"command": vars + c, "timeout": 60000}})
		hosttest.Must(t, err)
		in.Write(append(b, '\n'))
	}
	c := w.command(user, filepath.Join(hosttest.Bin, "toolhost"), "--config", config, "--workspace", w.work, "batch")
	c.Env = []string{
		"PATH=" + hosttest.Bin + ":" + os.Getenv("PATH"), "HOME=" + w.home, "XDG_RUNTIME_DIR=" + filepath.Join(w.dir, "run"), "XDG_STATE_HOME=" + filepath.Join(w.dir, "state"),
	}
	c.Dir, c.Stdin = w.work, strings.NewReader(in.String())
	began := time.Now()
	var printed bytes.Buffer
	c.Stdout, c.Stderr = &printed, &printed
	hosttest.Must(t, c.Start())
	w.host.Store(int64(c.Process.Pid))
	err := c.Wait()
	t.Logf("%d commands in %s", len(commands), time.Since(began).Round(time.Millisecond))
	outputs := make([]string, len(commands))
	for line := range strings.Lines(printed.String()) {
		var r struct {
			ID     *int   `json:"id"`
			Output string `json:"output"`
			Error  any    `json:"error"`
		}
		if json.Unmarshal([]byte(line), &r) == nil && r.ID != nil {
			outputs[*r.ID] = fmt.Sprint(r.Output, r.Error)
		}
	}
	if i := slices.Index(outputs, ""); i >= 0 {
		t.Fatalf("no answer to %q: %v\n%s", commands[i], err, printed.String())
	}
	return outputs
}

// tooMany returns a number of processes that exceeds a limit. Without a user namespace, the host adds the number of all
// tasks of the machine to the limit, because the kernel also counts the user's other tasks. Their number can grow until
// the host counts.
func tooMany(t *testing.T, limit int) int {
	t.Helper()
	load, err := os.ReadFile("/proc/loadavg")
	hosttest.Must(t, err)
	_, all, _ := strings.Cut(strings.Fields(string(load))[3], "/")
	tasks, err := strconv.Atoi(all)
	hosttest.Must(t, err)
	const margin = 600
	return limit + tasks + margin
}

// TestBombs checks that commands cannot exceed their resource limits.
func TestBombs(t *testing.T) {
	bombs := []string{
		`testescape memory 1024`,
		`head -c 3000000 /dev/zero > big; [ $(stat -c %s big) -gt 2000000 ] && echo ESCAPED`,
		`for i in {210..400}; do eval "exec $i</dev/null" || break; done 2>/dev/null; [ $i = 400 ] && echo ESCAPED`,
		`timeout 5 bash -c 'while :; do :; done'; [ $? = 124 ] && echo ESCAPED`,
		fmt.Sprintf(`testescape processes %d`, tooMany(t, 400)),
	}
	const processes = 4 // index of the last bomb in the table
	eachBackend(t, []string{"root", "ordinary"}, func(t *testing.T, user string, b hosttest.SandboxBackend) {
		if user == "root" && !b.Abilities.Confines {
			t.Skip("the run without a sandbox needs only one user")
		}
		w := newWorld(t, user)
		for i, out := range w.batch(t, b.Name, `sandbox {
			limits {
				memory = "512MiB"
				file_size = "1MiB"
				files = 256
				cpu = "1s"
				processes = 400
			}
		}`, bombs...) {
			got := strings.Contains(out, "ESCAPED")
			if strings.Contains(out, "did not run") {
				t.Errorf("%s: %s", bombs[i], out)
			}
			// For root, only a process namespace or a cgroup limits the number of processes.
			_, noCgroup := os.Stat("/sys/fs/cgroup/pids")
			unlimited := i == processes && user == "root" && !b.Abilities.PrivateProcesses && noCgroup != nil
			if want := !b.Abilities.Confines || unlimited; got != want {
				t.Errorf("%s: escaped: %v: %s", bombs[i], got, out)
			}
		}
	})
}

// TestDaemonsEnd starts a process that leaves its process group and its session and drops its environment. Then it
// kills the plugin, so that the plugin cannot clean up. With a sandbox, the process must end. Without a sandbox, it
// must survive.
func TestDaemonsEnd(t *testing.T) {
	t.Parallel()
	eachBackend(t, []string{"ordinary"}, func(t *testing.T, _ string, b hosttest.SandboxBackend) {
		if b.Abilities.Confines && !b.Abilities.PrivateProcesses {
			t.Skipf("%s does not end such processes, as doctor reports", b.Name)
		}
		w := newWorld(t, "ordinary")
		nap := strconv.Itoa(100000 + w.victim) // a unique duration identifies the process
		killed := make(chan struct{})
		go func() {
			defer close(killed)
			hosttest.Wait(t, "the daemon has started", func() bool { return isFile(filepath.Join(w.work, "started")) })
			for _, pid := range hosttest.ChildrenNamed(int(w.host.Load()), "bash") {
				if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
					t.Error(err)
				}
			}
		}()
		w.batch(t, b.Name, "", `setsid -f env -i PATH="$PATH" sh -c ": > daemon; exec sleep `+nap+`" </dev/null >/dev/null 2>&1; while [ ! -e daemon ]; do sleep 0.01; done; touch started; sleep 50`)
		<-killed
		daemons := func() []hosttest.Process {
			return slices.DeleteFunc(hosttest.Descendants(), func(p hosttest.Process) bool { return p.Command() != "sleep "+nap })
		}
		if b.Abilities.PrivateProcesses {
			hosttest.Wait(t, "the daemon ends", func() bool { return len(daemons()) == 0 })
		} else if len(daemons()) == 0 {
			t.Error("the daemon has ended, so the test shows nothing")
		}
		for _, p := range daemons() {
			_ = syscall.Kill(p.PID, syscall.SIGKILL)
		}
	})
}

func isFile(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// TestToolchains checks that typical commands of agents work inside the sandbox.
func TestToolchains(t *testing.T) {
	t.Parallel()
	work := []string{
		`git init -q . && git config user.email a@b && git config user.name n && echo 1 > f && git add f && git commit -qm one && git log --oneline | grep -q one && echo WORKS`,
		`printf 'all: x\n\t@echo WORKS\nx:\n\t@touch x\n' > Makefile; make`,
		`mkdir -p a b; touch a/f; mv a/f b/; ln b/f b/g; echo text > "$(mktemp)" && cat <<< WORKS`,
	}
	for _, tool := range []struct{ name, command string }{
		{"go", `mkdir -p g && cd g && printf 'module m\ngo 1.21\n' > go.mod && printf 'package main\nfunc main() { println("WORKS") }\n' > main.go && GOCACHE="$OLDPWD/cache" GOTOOLCHAIN=local GOFLAGS=-mod=mod go build -o m . && ./m 2>&1`},
		{"npm", `mkdir -p n && cd n && npm init -y >/dev/null && npm pack --silent && node -e 'console.log("WORKS")'`},
		{"/usr/bin/python3", `/usr/bin/python3 -c 'import tempfile, subprocess; tempfile.TemporaryFile(); subprocess.run(["echo", "WORKS"])'`},
	} {
		if _, err := exec.LookPath(tool.name); err == nil {
			work = append(work, tool.command)
		}
	}
	eachBackend(t, []string{"ordinary"}, func(t *testing.T, _ string, b hosttest.SandboxBackend) {
		w := newWorld(t, "ordinary")
		cache := filepath.Join(w.work, "cache")
		hosttest.Must(t, exec.Command("cp", "-r", hosttest.GoCache(t), cache).Run())
		if os.Getuid() == 0 {
			hosttest.Must(t, exec.Command("chown", "-R", strconv.Itoa(ordinary), cache).Run())
		}
		for i, out := range w.batch(t, b.Name, "", work...) {
			if !strings.Contains(out, "WORKS") {
				t.Errorf("%s: %s", work[i], out)
			}
		}
	})
}
