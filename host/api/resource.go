package api

import (
	"net/http"

	"toolhost.dev/sdk/tool"
)

// metadata describes this server as a protected resource, with the fields of RFC 9728, section 2.
type metadata struct {
	Resource             string   `json:"resource"`
	AuthorizationServers []string `json:"authorization_servers"`
	Scopes               []string `json:"scopes_supported,omitempty"`
	BearerMethods        []string `json:"bearer_methods_supported"`
	Name                 string   `json:"resource_name"`
}

// resource answers requests for the metadata of this server. It needs no token, because clients read the metadata to
// learn where they get one. Scripts of any web page are allowed to read it.
func (s *server) resource(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Access-Control-Allow-Origin", "*")
	w.Header().Set("Access-Control-Allow-Methods", "GET, OPTIONS")
	w.Header().Set("Access-Control-Allow-Headers", "MCP-Protocol-Version")
	switch r.Method {
	case http.MethodOptions:
		w.WriteHeader(http.StatusNoContent)
		return
	case http.MethodGet, http.MethodHead:
	default:
		w.Header().Set("Allow", "GET, OPTIONS")
		refuse(w, http.StatusMethodNotAllowed, tool.InvalidArguments,
			r.URL.Path+" does not support "+r.Method+"; use GET")
		return
	}
	if s.opts.Clients == nil {
		refuse(w, http.StatusNotFound, tool.NotFound, "this server needs no token")
		return
	}
	res, ok := s.opts.Clients.Described(r.URL.Path)
	if !ok {
		refuse(w, http.StatusNotFound, tool.NotFound, "no issuer of the configuration has a resource with this path; use a token that the operator created: toolhost token create NAME")
		return
	}
	reply(w, http.StatusOK, &metadata{
		Resource: res.URL, AuthorizationServers: res.Issuers, Scopes: res.Scopes, BearerMethods: []string{"header"},
		Name: "toolhost",
	})
}
