package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"toolhost.dev/host"
)

// terms contains those settings of a server that are relevant to its clients. A server that acquires the socket of
// another server compares the terms of both servers, because the clients do not notice that the server was replaced.
type terms struct {
	Workspace  string            `json:"workspace"`
	Workspaces map[string]string `json:"workspaces"` // workspaces by token digest
	Principals []string          `json:"principals"`
	Anonymous  bool              `json:"anonymous"`
	TLS        bool              `json:"tls"`
	Config     string            `json:"config"`
	Tools      []string          `json:"tools"`
}

// termsOf returns the terms of this server with the given clients.
func (f *serveFlags) termsOf(h *host.Host, clients *host.Directory) *terms {
	status := h.Status()
	t := &terms{Workspace: status.Workspace, Workspaces: make(map[string]string), Anonymous: f.noAuth,
		TLS: f.cert != "", Config: status.Config}
	for _, s := range clients.Secrets {
		digest := sha256.Sum256([]byte(s.Token))
		t.Workspaces[hex.EncodeToString(digest[:])] = strings.Join(s.Principal.Workspaces, "\n")
	}
	blocks := clients.Blocks()
	for _, p := range blocks.Principals {
		t.Principals = append(t.Principals, "principal "+p.Name)
	}
	for _, i := range blocks.Issuers {
		t.Principals = append(t.Principals, "issuer "+i.Name)
	}
	for _, tool := range h.Tools() {
		if tool.Enabled {
			t.Tools = append(t.Tools, tool.FullName)
		}
	}
	return t
}

// replacing compares the terms of a server with the terms of the server that it replaces. The result "refused" lists
// differences that would make the new server refuse or mislead clients. The result "warnings" lists differences that
// the operator may have intended.
func (t *terms) replacing(old *terms) (refused, warnings []string) {
	if t.Workspace != old.Workspace {
		refused = append(refused, fmt.Sprintf("the workspace is %s, and not %s", t.Workspace, old.Workspace))
	}
	if t.TLS != old.TLS {
		refused = append(refused, "only one of the servers uses TLS (--tls-cert)")
	}
	if old.Anonymous && !t.Anonymous {
		refused = append(refused, "the running server serves clients without a token (--no-auth)")
	}
	unknown := false
	for token, workspaces := range old.Workspaces {
		now, known := t.Workspaces[token]
		unknown = unknown || !known
		if left := without(strings.Split(workspaces, "\n"), strings.Split(now, "\n")); known && len(left) > 0 {
			refused = append(refused, "it lacks the workspaces "+strings.Join(left, ", ")+" (--allow-workspace)")
		}
	}
	if unknown {
		refused = append(refused, "it has other tokens ($"+tokenEnv+", $"+approverEnv+", --token-file)")
	}
	if left := without(old.Principals, t.Principals); len(left) > 0 {
		refused = append(refused, "its configuration lacks "+strings.Join(left, ", "))
	}
	if t.Config != old.Config {
		warnings = append(warnings, fmt.Sprintf("the configuration is now %s, and was %s", t.Config, old.Config))
	}
	if left := without(old.Tools, t.Tools); len(left) > 0 {
		warnings = append(warnings,
			"this server lacks the tools "+strings.Join(left, ", ")+", which clients can still call")
	}
	return refused, warnings
}

// without returns the elements of a that are missing in b.
func without(a, b []string) (left []string) {
	for _, s := range a {
		if s != "" && !slices.Contains(b, s) {
			left = append(left, s)
		}
	}
	return left
}
