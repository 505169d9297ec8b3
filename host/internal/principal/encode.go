package principal

import (
	"encoding/json"
	"fmt"
)

// encoded is the JSON form of a principal. A null list differs from an empty list, because a nil list permits
// everything.
type encoded struct {
	Name        string   `json:"name"`
	Rights      []string `json:"rights"`
	Workspaces  []string `json:"workspaces"`
	Tools       []string `json:"tools"`
	Fields      []string `json:"fields"`
	AnswersFor  []string `json:"answers_for"`
	MaxCalls    int      `json:"max_calls,omitempty"`
	MaxSessions int      `json:"max_sessions,omitempty"`
	MaxOutput   int64    `json:"max_output,omitempty"`
	Local       bool     `json:"local,omitempty"`
	Interactive bool     `json:"interactive,omitempty"`
	Within      *within  `json:"within,omitempty"`
}

// within is the JSON form of a restriction; see [Principal.Within].
type within struct {
	Name  string   `json:"name"`
	Tools []string `json:"tools"`
}

// Encode returns the principal as JSON, for another host that trusts this host.
func (p *Principal) Encode() ([]byte, error) {
	e := encoded{
		Name: p.Name, Rights: p.Rights.Names(), Workspaces: p.Workspaces, Tools: p.Tools, Fields: p.Fields,
		AnswersFor: p.AnswersFor,
		MaxCalls:   p.MaxCalls, MaxSessions: p.MaxSessions, MaxOutput: p.MaxOutput, Local: p.Local,
		Interactive: p.Interactive,
	}
	if p.within != nil {
		e.Within = &within{p.within.name, p.within.tools}
	}
	return json.Marshal(e)
}

// Decode returns the principal that [Principal.Encode] encoded. The caller must first check that the text comes from a
// trusted host.
func Decode(text []byte) (*Principal, error) {
	var e encoded
	if err := json.Unmarshal(text, &e); err != nil {
		return nil, fmt.Errorf("the principal cannot be read: %w", err)
	}
	rights, unknown := ParseRights(e.Rights)
	if unknown != "" || e.Name == "" {
		return nil, fmt.Errorf("the principal %q has an unknown right %q, or no name", e.Name, unknown)
	}
	out := &Principal{
		Name: e.Name, Local: e.Local, Interactive: e.Interactive,
		Grant: Grant{
			Rights: rights, Workspaces: e.Workspaces, Tools: e.Tools, Fields: e.Fields, AnswersFor: e.AnswersFor,
			MaxCalls: e.MaxCalls, MaxSessions: e.MaxSessions, MaxOutput: e.MaxOutput,
		},
	}
	if e.Within != nil {
		out = out.Within(e.Within.Name, e.Within.Tools)
	}
	return out, nil
}

// Admitting returns the principal with the additional right to work in a directory that an operator named.
func (p *Principal) Admitting(dir string) *Principal {
	if p.AnyWorkspace() {
		return p
	}
	out := *p
	out.Workspaces = append([]string{dir}, p.Workspaces...)
	return &out
}
