package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// healthAnswer is the JSON answer of /healthz and /readyz. Clients need no token for these paths, so the answer
// contains no names and no messages. GET /v1/status returns them.
type healthAnswer struct {
	Status   string   `json:"status"`
	Problems []string `json:"problems"`
	Reason   string   `json:"reason,omitempty"`
}

// healthz answers with the status 200 as long as the process serves requests. Problems do not change the status: a
// supervisor would restart the host, which does not solve them.
func (s *server) healthz(w http.ResponseWriter, r *http.Request) {
	writeHealth(w, r, http.StatusOK, &healthAnswer{Status: "ok", Problems: s.problemKinds()})
}

// readyz answers 503 if calls cannot succeed, so that a load balancer sends them elsewhere.
func (s *server) readyz(w http.ResponseWriter, r *http.Request) {
	switch {
	case s.host.Ready() != nil:
		writeHealth(w, r, http.StatusServiceUnavailable, &healthAnswer{
			Status: "unavailable", Problems: []string{}, Reason: "the host is shutting down",
		})
	case s.host.Usable(r.Context()) != nil:
		writeHealth(w, r, http.StatusServiceUnavailable, &healthAnswer{
			Status: "unavailable", Problems: s.problemKinds(), Reason: "no call can succeed; GET /v1/status has the reason",
		})
	default:
		writeHealth(w, r, http.StatusOK, &healthAnswer{Status: "ok", Problems: []string{}})
	}
}

// problemKinds returns the kinds of the current alarms, each once.
func (s *server) problemKinds() []string {
	kinds := []string{}
	for _, a := range s.host.Signals().Alarms {
		kinds = append(kinds, a.Kind)
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

func writeHealth(w http.ResponseWriter, r *http.Request, code int, h *healthAnswer) {
	w.Header().Set("Cache-Control", "no-store")
	if strings.Contains(r.Header.Get("Accept"), "application/json") {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(h) // the error is ignored: the client is gone
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	text := h.Status
	if h.Reason != "" {
		text = h.Reason
	}
	_, _ = fmt.Fprintln(w, text) // the error is ignored: the client is gone
	for _, kind := range h.Problems {
		_, _ = fmt.Fprintln(w, "problem:", kind)
	}
}
