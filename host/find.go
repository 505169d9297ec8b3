package host

import (
	"context"

	"toolhost.dev/host/internal/engine"
)

// SearchQuery selects tools by words of their definitions. The zero value lists the field namespaces.
type SearchQuery = engine.SearchQuery

// Found is the answer to a search.
type Found = engine.Found

// Search searches the definitions of the enabled tools. The first search builds the index.
func (h *Host) Search(_ context.Context, q SearchQuery) (*Found, error) {
	return h.engine.Search(q)
}

// Endpoint is a list of tools for MCP clients, as the configuration defines it.
type Endpoint = engine.Endpoint

// DefaultCore returns the names of the tools that a lazy endpoint lists if the configuration does not name them.
func (h *Host) DefaultCore() []string { return h.engine.DefaultCore() }

// Endpoints returns the endpoints of the configuration.
func (h *Host) Endpoints() []Endpoint { return h.engine.Endpoints() }

// Endpoint returns the endpoint with the given name. If the principal is not allowed to use the endpoint, Endpoint
// treats it as unknown. A nil principal is the local user.
func (h *Host) Endpoint(name string, p *Principal) (*Endpoint, error) {
	return h.engine.Endpoint(name, p)
}

// Within returns a principal with the restrictions of an endpoint. A nil principal is the local user.
func (h *Host) Within(p *Principal, endpoint string) (*Principal, error) {
	return h.engine.Within(p, endpoint)
}

// Only returns a principal that may call only the tools with the given full names, also inside of commands. The name
// describes for messages what restricts it. A nil principal is the local user.
func (h *Host) Only(p *Principal, name string, tools []string) *Principal {
	return h.engine.Only(p, name, tools)
}

// Uses returns the number of recent calls of each tool, by its full name.
func (h *Host) Uses() map[string]int { return h.engine.Uses() }
