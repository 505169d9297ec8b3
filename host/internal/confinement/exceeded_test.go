package confinement

import (
	"strings"
	"testing"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/sandbox"
)

// TestExceeded checks which exceeded limit is recognized in the output of a program.
func TestExceeded(t *testing.T) {
	l := New(&config.Config{Sandbox: config.Sandbox{Backend: sandbox.Auto, Enforce: "auto"}}, &Parts{})
	l.probe.Do(func() { l.kernel = sandbox.Kernel{Launcher: "/l", ABI: 7, Seccomp: true, Namespaces: true} })
	exec := true
	shell := &config.Plugin{Name: "p", Confinement: config.Confinement{Exec: &exec}}
	for _, tc := range []struct {
		printed string
		failed  bool
		want    string // the limit in the message; empty means no message
	}{
		{"x.sh: line 2: fork: retry: Resource temporarily unavailable\n", false, "limited to 1024 together"},
		{"BlockingIOError: [Errno 11] Resource temporarily unavailable", true, "limits { processes }"},
		{"runtime: failed to create new OS thread (have 7 already; errno=11)", true, "limits { processes }"},
		{"java.lang.OutOfMemoryError: unable to create native thread", true, "limits { processes }"},
		{"OSError: [Errno 24] Too many open files: 'x'", true, "ulimit -n 16384"},
		{"OSError: [Errno 24] Too many open files: 'x'", false, ""},
		{"tail: memory exhausted", true, "limited to 8GiB. A command can remove it"},
		{"==1==ERROR: AddressSanitizer failed to allocate 0x1 (1) bytes (errno: 12)", true, "ulimit -d unlimited"},
		{"File size limit exceeded", true, "limits { file_size }"},
		{"head: error writing: No space left on device", true, "limits { temporary }"},
		{"CPU time limit exceeded", true, ""}, // this limit has no default
		{"no such file", true, ""},
	} {
		got := strings.Join(l.exceeded(shell, nil, tc.printed, tc.failed), "|")
		if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%q: %q, want %q", tc.printed, got, tc.want)
		}
	}
	if got := l.exceeded(&config.Plugin{Name: "p"}, nil, "x.sh: line 2: fork: retry: Resource temporarily unavailable\n", false); got != nil {
		t.Errorf("a plugin without a shell that shows a file: %q", got)
	}
	set := &config.Plugin{Name: "p", Confinement: config.Confinement{Limits: config.Limits{Files: 300, Memory: config.Unlimited}}}
	if got := l.exceeded(set, nil, "Too many open files. Cannot allocate memory", true); len(got) != 1 || strings.Contains(got[0], "ulimit") {
		t.Errorf("%q", got)
	}
}

// TestDefaultLimits checks that a process can raise a default limit but not a limit of the operator. It also checks
// that the operator can remove a limit.
func TestDefaultLimits(t *testing.T) {
	p := Profile(&config.Plugin{})
	if l := p.Limits; l.Memory != 8<<30 || !l.Raise.Memory || l.Files != 1024 || l.Raise.Files != 16384 || l.Processes != 1024 || !l.Raise.FileSize || p.Temporary != 2<<30 || p.Resident != 0 {
		t.Errorf("%+v", p)
	}
	exec := true
	set := config.Confinement{Exec: &exec, Limits: config.Limits{Memory: 1 << 30, Files: 300, FileSize: config.Unlimited, Processes: config.Unlimited, Temporary: config.Unlimited}}
	p = Profile(&config.Plugin{Confinement: set})
	if l := p.Limits; l.Memory != 1<<30 || l.Raise.Memory || l.Files != 300 || l.Raise.Files != 0 || l.FileSize != 0 || l.Processes != 0 || p.Temporary != 0 {
		t.Errorf("%+v", p)
	}
	set.Limits.Total.Memory = config.Unlimited
	if p = Profile(&config.Plugin{Confinement: set}); p.Resident != 0 || p.Total.Memory != 0 {
		t.Errorf("%+v", p)
	}
}

// TestWeaker checks that a weaker backend is reported exactly for the plugins that lose restrictions.
func TestWeaker(t *testing.T) {
	exec := true
	shell, reader := config.Plugin{Name: "shell", Confinement: config.Confinement{Exec: &exec}}, config.Plugin{Name: "reader", Confinement: config.Confinement{WriteRoots: new(bool)}}
	for _, tc := range []struct {
		backend, enforce string
		namespaces       bool
		want             bool
	}{
		{sandbox.Auto, "auto", false, true}, {"ns", "auto", false, true},
		{sandbox.Auto, "auto", true, false},
		{"landlock", "auto", false, false}, {"none", "auto", false, false}, {sandbox.Auto, "off", false, false}, {sandbox.Auto, "require", false, false},
	} {
		cfg := &config.Config{Sandbox: config.Sandbox{Backend: tc.backend, Enforce: tc.enforce}, Plugins: []config.Plugin{reader, shell}}
		l := New(cfg, &Parts{})
		l.probe.Do(func() {
			l.kernel = sandbox.Kernel{Launcher: "/l", ABI: 7, Seccomp: true, Namespaces: tc.namespaces, NoNamespaces: "they are forbidden"}
		})
		got := l.weaker(&shell, nil)
		if (got != "") != tc.want || got != l.Problem(nil) || l.weaker(&reader, nil) != "" {
			t.Errorf("%+v: %q, %q, %q", tc, got, l.Problem(nil), l.weaker(&reader, nil))
		}
	}
}

// TestHintsInBranches checks the hints about failures that only occur in a branch, and that a hint which suggests to
// permit changes outside of a branch says that the branch does not hold them back.
func TestHintsInBranches(t *testing.T) {
	l := New(&config.Config{}, &Parts{})
	p := &config.Plugin{Name: "p"}
	in := []tool.Root{{Path: "/ws", Writable: true, Branch: "b", View: "/proc/self/fd/9"}}
	const before = "touch: cannot touch '/other/x': Read-only file system\n"
	for _, tc := range []struct {
		roots         []tool.Root
		printed, want string
	}{
		{in, "mv: cannot move 'd' to 'e': Invalid cross-device link", "cannot be renamed in one step. Use mv"},
		{in, "OSError: [Errno 18] EXDEV", "cannot be renamed in one step. Use mv"},
		{in, "Value too large for defined data type", "Replace the file with a copy"},
		{in, before, `write = ["/other"] in the sandbox block of plugin "p". The branch does not hold back changes there`},
		{[]tool.Root{{Path: "/ws", Writable: true}}, before, `write = ["/other"] in the sandbox block of plugin "p"`},
	} {
		got := l.pathHint(p, sandbox.Profile{}, tc.roots, nil, tc.printed)
		if !strings.Contains(got, tc.want) || strings.Contains(got, "The branch") != strings.Contains(tc.want, "The branch") {
			t.Errorf("%q: the hint is %q, want %q", tc.printed, got, tc.want)
		}
	}
}
