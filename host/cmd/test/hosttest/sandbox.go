package hosttest

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"toolhost.dev/sdk/tooltest/need"
)

// OnSmallDisk runs a bash script and returns its output. In the script, the directory "state" is a file system of 2 MB,
// and "ws" is the workspace. $TOOLHOST is a toolhost command that uses this state directory.
func OnSmallDisk(t *testing.T, script string) string {
	t.Helper()
	if out, err := exec.Command("unshare", "-rm", "true").CombinedOutput(); err != nil {
		need.Missing(t, "no user and mount namespaces here: "+err.Error()+" "+string(out))
	}
	dir := t.TempDir()
	runtime, err := os.MkdirTemp("", "th")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(runtime) })
	for _, name := range []string{"ws", "state"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.CommandContext(t.Context(), "timeout", "60", "unshare", "-rm", "bash", "-eu", "-c", `
		mount -t tmpfs -o size=2m,mode=700 none state
		fill() { dd if=/dev/zero of=../state/filler bs=4k count=1024 2>/dev/null || true; }
		toolhost() { command toolhost --state ../state "$@"; }
		cd ws
		`+script)
	c.Dir = dir
	c.Env = append(os.Environ(), "PATH="+Bin+":"+os.Getenv("PATH"), "XDG_RUNTIME_DIR="+runtime,
		"XDG_CONFIG_HOME="+filepath.Join(dir, "config"))
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// SandboxBackend is a sandbox backend in the output of doctor.
type SandboxBackend struct {
	Name      string `json:"name"`
	Unusable  string `json:"unusable"`
	Abilities struct {
		Confines         bool `json:"confines"`
		OwnRoot          bool `json:"own_root"`
		PrivateProcesses bool `json:"private_processes"`
	} `json:"abilities"`
}

// Doctor runs "toolhost doctor" as the current user. It returns the version of Landlock and the sandbox backends, from
// the strongest to the weakest.
func Doctor(t *testing.T) (abi int, backends []SandboxBackend) {
	t.Helper()
	d, err := examine()
	Must(t, err)
	if len(d.Backends) < 3 {
		t.Fatalf("doctor lists only the backends %v", d.Backends)
	}
	return d.Machine.ABI, d.Backends
}

// examination is the answer of "toolhost doctor".
type examination struct {
	Machine struct {
		ABI int `json:"landlock_abi"`
	} `json:"machine"`
	Backends []SandboxBackend `json:"backends"`
}

// examine runs "toolhost doctor" once, because its answer is the same for all tests.
var examine = sync.OnceValues(func() (examination, error) {
	var d examination
	out, err := Command("doctor", "--json").Output()
	if err == nil {
		err = json.Unmarshal(out, &d)
	}
	return d, err
})

// Supports reports whether this machine supports a backend.
func Supports(t *testing.T, backend string) bool {
	t.Helper()
	abi, backends := Doctor(t)
	return slices.ContainsFunc(backends, func(b SandboxBackend) bool {
		return b.Name == backend && b.Unusable == "" && (b.Abilities.OwnRoot || abi >= 6)
	})
}

// NeedsNamespaces skips a test if the backend "ns" or its exec gate does not work on this machine.
func NeedsNamespaces(t *testing.T) {
	t.Helper()
	out := examined()
	if !strings.Contains(out, "programs: each one is recorded and judged") || !strings.Contains(out, "bash: backend ns") {
		need.Missing(t, "the exec gate or namespaces do not work here:\n"+out)
	}
}

// examined returns what "toolhost doctor" prints about this machine.
var examined = sync.OnceValue(func() string {
	state, err := os.MkdirTemp("", "toolhost-state")
	if err != nil {
		return err.Error()
	}
	defer os.RemoveAll(state)
	out, err := Command("--state", state, "doctor").CombinedOutput()
	if err != nil && len(out) == 0 {
		return err.Error()
	}
	return string(out)
})
