package main

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

// sandboxBackend is a sandbox backend in the output of doctor.
type sandboxBackend struct {
	Name      string `json:"name"`
	Unusable  string `json:"unusable"`
	Abilities struct {
		Confines         bool `json:"confines"`
		OwnRoot          bool `json:"own_root"`
		PrivateProcesses bool `json:"private_processes"`
	} `json:"abilities"`
}

// doctor runs "toolhost doctor" as the current user. It returns the version of Landlock and the sandbox backends, from
// the strongest to the weakest.
func doctor(t *testing.T) (abi int, backends []sandboxBackend) {
	t.Helper()
	d, err := examine()
	must(t, err)
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
	Backends []sandboxBackend `json:"backends"`
}

// examine runs "toolhost doctor" once, because its answer is the same for all tests.
var examine = sync.OnceValues(func() (examination, error) {
	var d examination
	out, err := exec.Command(filepath.Join(bin, "toolhost"), "doctor", "--json").Output()
	if err == nil {
		err = json.Unmarshal(out, &d)
	}
	return d, err
})

// supports reports whether this machine supports a backend.
func supports(t *testing.T, backend string) bool {
	t.Helper()
	abi, backends := doctor(t)
	return slices.ContainsFunc(backends, func(b sandboxBackend) bool {
		return b.Name == backend && b.Unusable == "" && (b.Abilities.OwnRoot || abi >= 6)
	})
}
