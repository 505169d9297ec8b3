package hosttest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// CollectedSpan is a span that a host exported.
type CollectedSpan struct {
	TraceID, SpanID, ParentSpanID, Name string
	Kind                                int
	Attributes                          []struct {
		Key   string
		Value struct{ StringValue string }
	}
	Status struct{ Code int }
}

// Attribute returns the value of an attribute, or "".
func (s CollectedSpan) Attribute(key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value.StringValue
		}
	}
	return ""
}

// SpanCollector receives spans as an OpenTelemetry collector does.
type SpanCollector struct {
	*httptest.Server
	Mu    sync.Mutex
	Spans []CollectedSpan
	Text  strings.Builder
}

// NewSpanCollector starts a server that collects the spans of hosts.
func NewSpanCollector(t *testing.T) *SpanCollector {
	c := new(SpanCollector)
	c.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var got struct {
			ResourceSpans []struct {
				ScopeSpans []struct{ Spans []CollectedSpan }
			}
		}
		c.Mu.Lock()
		defer c.Mu.Unlock()
		var raw json.RawMessage
		if err := json.NewDecoder(r.Body).Decode(&raw); err != nil {
			t.Error(err)
			return
		}
		c.Text.Write(raw)
		if err := json.Unmarshal(raw, &got); err != nil {
			t.Error(err)
			return
		}
		for _, rs := range got.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				c.Spans = append(c.Spans, ss.Spans...)
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// Named returns the spans with the given name.
func (c *SpanCollector) Named(name string) (out []CollectedSpan) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	for _, s := range c.Spans {
		if s.Name == name {
			out = append(out, s)
		}
	}
	return out
}
