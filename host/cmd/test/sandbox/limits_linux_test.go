package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"toolhost.dev/host/cmd/test/hosttest"
)

// limited runs a command with the tool bash and the given limits, and returns the output of toolhost. Empty
// limits mean the defaults. The user "isolated" is root without a cgroup that limits the number of processes.
func (w *world) limited(t *testing.T, user, backend, limits, command string) string {
	t.Helper()
	if limits != "" {
		limits = "sandbox {\n limits {\n" + limits + "\n }\n}\n"
	}
	enforce := map[bool]string{true: "off", false: "auto"}[backend == "none"]
	config := filepath.Join(w.dir, "toolhost.hcl")
	hosttest.Must(t, os.WriteFile(config, fmt.Appendf(nil, "sandbox {\n backend = %q\n enforce = %q\n}\nplugin \"bash\" {\n%s}\n", backend, enforce, limits), 0o644))
	args := []string{filepath.Join(hosttest.Bin, "toolhost"), "--config", config, "--workspace", w.work, "run", "--", command}
	if user == "isolated" {
		args = append([]string{"unshare", "-m", "sh", "-c", `umount -l /sys/fs/cgroup && exec "$@"`, "sh"}, args...)
	}
	c := w.command(user, args[0], args[1:]...)
	c.Env = []string{
		"PATH=" + hosttest.Bin + ":" + os.Getenv("PATH"), "HOME=" + w.home, "XDG_RUNTIME_DIR=" + filepath.Join(w.dir, "run"), "XDG_STATE_HOME=" + filepath.Join(w.dir, "state"),
	}
	c.Dir = w.work
	out, _ := c.CombinedOutput()
	return string(out)
}

// TestLimits checks that commands cannot exceed limits, and that the result names the limit and its setting. The
// backend "none" is the control. With this backend, most of the commands must exceed the limit.
func TestLimits(t *testing.T) {
	eachBackend(t, []string{"root", "isolated", "ordinary"}, func(t *testing.T, user string, b hosttest.SandboxBackend) {
		if user == "isolated" && (os.Getuid() != 0 || !b.Abilities.OwnRoot) {
			t.Skip("this needs root and a process namespace")
		}
		w := newWorld(t, user)
		processes := tooMany(t, 100)
		if user == "isolated" { // for this user, only the range of process ids limits the number
			processes = 5000
		}
		for _, tc := range []struct{ name, limits, command, want string }{
			{"processes", "processes = 100", "testescape processes " + strconv.Itoa(processes), "limited to 100 together"},
			{"files", "", `for i in {210..1100}; do eval "exec $i</dev/null" || break; done; [ $i = 1100 ] && echo ESCAPED; echo too many open files; exit 1`, "The open files of a process are limited to 1024"},
			{"files by itself", "", `ulimit -n 20000 && echo ESCAPED`, ""},
			{"memory", `memory = "256MiB"`, `testescape memory 400`, ""},
			{"memory message", `memory = "64MiB"`, `head -c 200000000 /dev/zero | tail -c 190000000 | wc -c | grep -q 190000000 && echo ESCAPED`, "The memory of a process is limited to 64MiB"},
			{"file size", "", `truncate -s 9G sparse && echo ESCAPED`, "The size of a file is limited to 8GiB"},
			{"core", "", `[ "$(ulimit -c)" = 0 ] || echo ESCAPED`, ""},
			{"temporary", `temporary = "4MiB"`, `head -c 8000000 /dev/zero > /var/tmp/toolhost-limit && echo ESCAPED; rm -f /var/tmp/toolhost-limit; exit 1`, "holds at most 4MiB"},
		} {
			if tc.name == "temporary" && b.Abilities.Confines && !b.Abilities.OwnRoot {
				continue
			}
			out := w.limited(t, user, b.Name, tc.limits, tc.command)
			escaped := strings.Contains(out, "ESCAPED")
			switch {
			case !b.Abilities.Confines && tc.name != "core" && !escaped && !strings.HasPrefix(tc.name, "files by"):
				t.Errorf("%s: the limit holds without a sandbox, so the test proves nothing: %s", tc.name, out)
			case !b.Abilities.Confines:
			case escaped:
				t.Errorf("%s: the limit does not hold: %s", tc.name, out)
			case !strings.Contains(out, tc.want):
				t.Errorf("%s: the result does not name the limit: %s", tc.name, out)
			}
		}
	})
}

// TestManyForks checks that the process limit does not break scripts that start very many processes in sequence.
// Process ids must not wrap around too early.
func TestManyForks(t *testing.T) {
	t.Parallel()
	eachBackend(t, []string{"isolated", "ordinary"}, func(t *testing.T, user string, b hosttest.SandboxBackend) {
		if !b.Abilities.OwnRoot || user == "isolated" && os.Getuid() != 0 {
			t.Skip("only a process namespace has its own process ids")
		}
		t.Parallel()
		w := newWorld(t, user)
		forks := 4200 // the smallest range of process ids is 4096
		if user == "isolated" {
			forks = 400 // a short test, because the range of ids does not depend on the user
		}
		script := fmt.Sprintf("for i in {1..%d}; do", forks) + ` (exit 7); [ $? = 7 ] || { echo "wrong status after $i"; break; }; done
for i in {1..100}; do [ "$(for j in 1 2 3; do (echo $j); done | sort -r | tr -d '\n')" = 321 ] || echo wrong output; done
for i in {1..100}; do sleep 0 & a=$!; (exit 4) & wait $!; [ $? = 4 ] || echo wrong wait; wait $a || echo lost child; done; echo all right`
		hosttest.Must(t, os.WriteFile(filepath.Join(w.work, "forks.sh"), []byte(script), 0o644))
		out := w.limited(t, user, b.Name, "processes = 200", "tool:bash --timeout 600000 --command '. ./forks.sh'") // a busy machine needs minutes
		if out != "all right\n" {
			t.Errorf("%s", out)
		}
	})
}

// TestMemoryOfAll checks that the host kills the largest process of a plugin if the plugin's processes together use too
// much memory. Shared memory must count only once.
func TestMemoryOfAll(t *testing.T) {
	t.Parallel()
	eachBackend(t, []string{"root", "ordinary"}, func(t *testing.T, user string, b hosttest.SandboxBackend) {
		if user == "root" && os.Getuid() == 0 && !b.Abilities.OwnRoot {
			t.Skip("the host measures memory in the same way for each user: the ordinary user is enough")
		}
		w := newWorld(t, user)
		t.Parallel()
		const limit = `total { memory = "200MiB" }`
		out := w.limited(t, user, b.Name, limit, `for i in 1 2 3; do testescape hold 80 & done; wait; wait; exit 1`)
		switch held := strings.Count(out, "ESCAPED"); {
		case !b.Abilities.Confines && held != 3:
			t.Errorf("not all processes run without a sandbox, so the test proves nothing: %s", out)
		case b.Abilities.Confines && (held == 3 || !strings.Contains(out, "of memory together and the limit is 200MiB")):
			t.Errorf("no process was killed: %s", out)
		}
		if out := w.limited(t, user, b.Name, limit, `testescape share 80`); !strings.Contains(out, "ESCAPED") {
			t.Errorf("shared memory was counted more than once: %s", out)
		}
	})
}
