package bash

import (
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"toolhost.dev/plugins/bash/shell"
	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
)

// BenchmarkTrue measures an in-process call of the tool in a session with state.
func BenchmarkTrue(b *testing.B) {
	def := Plugin()
	defer def.Close()
	p, err := sdk.New(def)
	if err != nil {
		b.Fatal(err)
	}
	raw, err := json.Marshal(args{Command: "true"})
	if err != nil {
		b.Fatal(err)
	}
	var state []byte
	for b.Loop() {
		res := p.Call(b.Context(), &tool.Call{Tool: "bash", Arguments: raw, Cwd: "/", SessionState: state}, &peer{})
		if res.Error != nil {
			b.Fatal(res.Error)
		}
		state = res.SessionState
	}
}

// BenchmarkPlainBash is the baseline for BenchmarkTrue.
func BenchmarkPlainBash(b *testing.B) {
	path, err := shell.Find()
	if err != nil {
		b.Fatal(err)
	}
	env := shell.Environment(os.Environ())
	for b.Loop() {
		cmd := exec.Command(path, "--norc", "--noprofile", "-c", "true")
		cmd.Env = env
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatal(err, out)
		}
	}
}
