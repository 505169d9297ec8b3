package engine

import (
	"fmt"
	"slices"

	"toolhost.dev/sdk/suggest"
	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/generation"
	"toolhost.dev/host/internal/help"
	"toolhost.dev/host/internal/policy"
	"toolhost.dev/host/internal/registry"
)

// Endpoint is a list of tools for MCP clients. See [config.Endpoint].
type Endpoint = config.Endpoint

// DefaultCore returns the names of the tools that a lazy endpoint lists if the configuration does not name them.
func (e *Engine) DefaultCore() (names []string) {
	for _, role := range config.DefaultCore {
		if name := e.Current().Registry.RoleName(role); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// Endpoints returns the endpoints of the current configuration.
func (e *Engine) Endpoints() []Endpoint { return e.Current().Endpoints }

// Endpoint returns the endpoint with the given name. An endpoint that the principal is not allowed to use does not
// exist for the principal. A nil principal is the local user, who is allowed to use all endpoints.
func (e *Engine) Endpoint(name string, who *Principal) (*Endpoint, error) {
	return e.endpoint(e.Current(), name, who)
}

func (e *Engine) endpoint(g *generation.Generation, name string, who *Principal) (*Endpoint, error) {
	var known []string
	for _, p := range g.Endpoints {
		if who != nil && who.Name != e.local.Name && !p.Admits(who.Name) {
			continue
		}
		if p.Name == name {
			return &p, nil
		}
		known = append(known, p.Name)
	}
	return nil, tool.Errorf(tool.NotFound, "There is no endpoint %q.%s Add it to the configuration: endpoint %q { … }.", name, suggest.DidYouMean(name, known), name)
}

// Within returns a principal with the restrictions of an endpoint. A nil principal is the local user.
func (e *Engine) Within(who *Principal, endpoint string) (*Principal, error) {
	if who == nil {
		who = e.local
	}
	return e.restricted(e.Current(), who, endpoint)
}

// Only returns a principal that may call only the tools with the given full names. The name describes for messages what
// restricts it. A nil principal is the local user.
func (e *Engine) Only(who *Principal, name string, tools []string) *Principal {
	if who == nil {
		who = e.local
	}
	return who.Within(name, tools)
}

// restricted restricts a principal to an endpoint.
func (e *Engine) restricted(g *generation.Generation, who *Principal, endpoint string) (*Principal, error) {
	if endpoint == "" {
		return who, nil
	}
	p, err := e.endpoint(g, endpoint, who)
	if err != nil {
		return nil, err
	}
	return who.Within("endpoint "+p.Name, p.Tools), nil
}

// SearchQuery selects tools. See [help.Query].
type SearchQuery struct {
	help.Query
	// Schema adds the schemas of the arguments to the text of the answer.
	Schema bool
	// Principal and Endpoint restrict the search to the tools that can be called. A nil principal is the local user.
	Principal *Principal
	Endpoint  string
}

// Found is the answer to a search.
type Found struct {
	Tools []FoundTool `json:"tools"`
	// Namespaces lists all namespaces after an empty query. After a query that found no tools, it lists the namespaces
	// that are most similar to the query.
	Namespaces []FoundNamespace `json:"namespaces,omitempty"`
	// Text is the answer for a person or a model.
	Text string `json:"-"`
}

// FoundTool is a tool that matches a query.
type FoundTool struct {
	FullName    string `json:"full_name"`
	Description string `json:"description"`
	// Command is the command that calls the tool, with its parameters and their types.
	Command string `json:"command"`
	// Permission is what the policy decides about calls of the tool while their arguments are unknown. It ignores
	// earlier answers of a person.
	Permission policy.Outlook `json:"permission"`
	Score      float64        `json:"score"`
	Matches    []help.Match   `json:"matches,omitempty"`
}

// FoundNamespace is the namespace of a field, with the tools in it.
type FoundNamespace struct {
	Name  string   `json:"name"`
	Tools []string `json:"tools"`
}

// Search searches the definitions of the enabled tools.
func (e *Engine) Search(q SearchQuery) (*Found, error) {
	g, who := e.Current(), e.local
	if q.Principal != nil {
		who = q.Principal
	}
	who, err := e.restricted(g, who, q.Endpoint)
	if err != nil {
		return nil, err
	}
	allowed := func(t *registry.Entry) bool {
		return who.ToolAllowed(t.Namespace, t.Definition.Name) && g.Dispatch.Outlook(t).Effect != policy.Deny
	}
	if q.Namespace != "" && !slices.Contains(g.Registry.Namespaces(), q.Namespace) {
		return nil, fmt.Errorf("there is no field namespace %q.%s", q.Namespace,
			suggest.DidYouMean(q.Namespace, g.Registry.Namespaces()))
	}
	a := e.reloader.Builder.Calls.Finder.Search(g.Registry, allowed, q.Query)
	out := &Found{Tools: []FoundTool{}, Text: help.Found(a, g.Dispatch.Outlook, q.Words, q.Schema)}
	for _, h := range a.Hits {
		out.Tools = append(out.Tools, FoundTool{
			FullName: h.Tool.FullName(), Description: h.Tool.Definition.Description, Command: help.Command(h.Tool),
			Permission: g.Dispatch.Outlook(h.Tool),
			Score:      h.Score, Matches: h.Matches,
		})
	}
	for _, n := range a.Namespaces {
		out.Namespaces = append(out.Namespaces, FoundNamespace(n))
	}
	return out, nil
}

// Uses returns the number of recent calls of each tool, by its full name.
func (e *Engine) Uses() map[string]int {
	uses, err := e.state.Uses(maxUses)
	if err != nil {
		e.opts.Log.Warn("the uses of tools cannot be counted", "error", err)
	}
	return uses
}

// maxUses is the number of recent calls that Uses counts.
const maxUses = 5000
