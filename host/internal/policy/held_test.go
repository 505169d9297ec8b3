package policy_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"toolhost.dev/host/internal/policy"
	"toolhost.dev/sdk/tool"
)

// TestOnlyLossesOfWorkspaceAreHeldBack checks which permission requests can be answered later. A branch and a preview
// hold back only the loss of files of the workspace, so a command that names other files must be confirmed before it
// runs. A rule that shows a diff concerns only commands, because a preview does not hold back what other tools do.
func TestOnlyLossesOfWorkspaceAreHeldBack(t *testing.T) {
	ws, outside := filepath.Join(t.TempDir(), "ws"), "/usr/lib"
	for _, dir := range []string{"d", "e"} {
		if err := os.MkdirAll(filepath.Join(ws, dir), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(ws, dir, "file"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, filepath.Join(ws, "link")); err != nil {
		t.Fatal(err)
	}
	up, err := filepath.Rel(ws, outside)
	if err != nil {
		t.Fatal(err)
	}
	careful := rules(t, policy.Rules{Careful: true})
	for text, held := range map[string]bool{
		"rm -r d":                                      true,
		"rm " + ws + "/d/file":                         true,
		"cd d; rm file":                                true,
		"rm d/file e/file":                             true,
		"tar --remove-files -cf /tmp/x d/file":         true,
		"rm d/file /usr/lib/os-release":                false,
		"rm " + up + "/os-release":                     false,
		"rm d/file link/os-release":                    false,
		"cd /usr/lib; rm os-release":                   false,
		"rm d/file; cd /usr/lib; rm d/file os-release": false,
		"find /usr/lib -name x -delete":                false,
		"find d -delete":                               true,
		"rm d/file $(cat list)":                        false,
		"truncate --size=0 d/file":                     true,
	} {
		req, who := command(t, ws, text), &peer{answer: tool.Answer{Outcome: tool.Declined}}
		if _, err := careful.Check(t.Context(), req, who, answers{}); err == nil || who.asked == nil {
			t.Errorf("%s: %v, asked %+v", text, err, who.asked)
			continue
		}
		m := who.asked.Permission.Metadata
		if m[policy.OnlyFiles] == true != held || m[policy.ShowDiff] == true != held {
			t.Errorf("%s: %v, wanted %t", text, m, held)
		}
	}
	shown := rules(t, policy.Rules{Rules: []policy.Rule{{Name: "all", Effect: policy.Ask, Tools: []string{"*", "bash"}, Show: "diff"}}})
	for name, req := range map[string]*policy.Request{"bash": command(t, ws, "true"), "jira:delete": {
		Name: "jira:delete", Definition: &tool.Definition{Name: "delete"}, Workspace: ws, Schema: parse(t, `{"type":"object"}`), Call: &tool.Call{Cwd: ws}, Args: map[string]json.RawMessage{},
	}} {
		who := &peer{answer: tool.Answer{Outcome: tool.Declined}}
		if _, err := shown.Check(t.Context(), req, who, answers{}); err == nil || who.asked.Permission.Metadata[policy.ShowDiff] == true != (name == "bash") {
			t.Errorf("%s: %v, %+v", name, err, who.asked.Permission)
		}
	}
}
