package mcp

import (
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// sessionTimeout limits the time that a client with a session can be idle.
const sessionTimeout = 30 * time.Minute

// Handler returns an HTTP handler for clients with and without sessions. The caller must authenticate clients, check
// Host and Origin, and limit the size of requests.
func (s *Server) Handler() http.Handler {
	get := func(*http.Request) *mcp.Server { return s.mcp }
	sessions := mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{Logger: s.opts.Log, SessionTimeout: sessionTimeout, MaxRequestBodyBytes: -1})
	none := mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{Logger: s.opts.Log, Stateless: true, PropagateRequestCancellation: true, MaxRequestBodyBytes: -1})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Compare the protocol revisions as text, because they are dates in the form 2006-01-02.
		if r.Header.Get("Mcp-Protocol-Version") >= stateless {
			none.ServeHTTP(w, r)
			return
		}
		sessions.ServeHTTP(w, r)
	})
}
