package main

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
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
	out, err := exec.Command(filepath.Join(bin, "toolhost"), "doctor", "--json").Output()
	must(t, err)
	var d struct {
		Machine struct {
			ABI int `json:"landlock_abi"`
		} `json:"machine"`
		Backends []sandboxBackend `json:"backends"`
	}
	must(t, json.Unmarshal(out, &d))
	if len(d.Backends) < 3 {
		t.Fatalf("doctor knows the backends %v", d.Backends)
	}
	return d.Machine.ABI, d.Backends
}

// supports reports whether this machine supports a backend.
func supports(t *testing.T, backend string) bool {
	t.Helper()
	abi, backends := doctor(t)
	return slices.ContainsFunc(backends, func(b sandboxBackend) bool {
		return b.Name == backend && b.Unusable == "" && (b.Abilities.OwnRoot || abi >= 6)
	})
}
