package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/tooltest"
	"toolhost.dev/sdk/tooltest/conformance"
)

// server starts an API with users and an endpoint for each kind of failure.
func server(t *testing.T) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/users/7", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"method":%q,"token":%q,"query":%q}`, r.Method, r.Header.Get("Token"), r.URL.RawQuery)
	})
	mux.HandleFunc("/v1/users", func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"type":%q,"got":%s}`, r.Header.Get("Content-Type"), b)
	})
	mux.HandleFunc("/v1/slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("/v1/big", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("x", maxBody+5)) })
	mux.HandleFunc("/v1/away", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://192.0.2.1/", http.StatusFound)
	})
	mux.HandleFunc("/v1/busy", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "later", http.StatusTooManyRequests) })
	mux.HandleFunc("/secret", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "secret") })
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func configuration(s *httptest.Server) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"base_url":"%s/v1","headers":{"Token":"t"}}`, s.URL))
}

func TestCalls(t *testing.T) {
	h := tooltest.New(t, plugin(), t.TempDir())
	if diags := h.Configure(tool.Configuration{Config: configuration(server(t))}); len(diags) != 0 {
		t.Fatalf("%+v", diags)
	}
	output, data, _ := tooltest.Do[answer](h, "api_get", map[string]any{"endpoint": "/users/7?a=b"})
	if want := `{"method":"GET","token":"t","query":"a=b"}`; output != "200 OK\n"+want || string(data.Body) != want || data.Status != 200 {
		t.Errorf("%q %+v", output, data)
	}
	_, data, _ = tooltest.Do[answer](h, "custom_api_call", map[string]any{"endpoint": "users", "data": map[string]any{"name": "Ada"}})
	if data.Status != 201 || string(data.Body) != `{"type":"application/json","got":{"name":"Ada"}}` {
		t.Errorf("%+v", data)
	}
	if output, _, _ := tooltest.Do[answer](h, "custom_api_call", map[string]any{"endpoint": "users/7", "method": "DELETE"}); !strings.Contains(output, `"DELETE"`) {
		t.Error(output)
	}
	if _, data, _ := tooltest.Do[answer](h, "api_get", map[string]any{"endpoint": "big"}); !data.Truncated {
		t.Errorf("%+v", data)
	}
	h.Refuses("api_get", map[string]any{"endpoint": "none"}, tool.NotFound, "404")
	h.Refuses("api_get", map[string]any{"endpoint": "busy"}, tool.Unavailable, "429", "later")
	h.Refuses("api_get", map[string]any{"endpoint": "away"}, tool.Unavailable, "another server")
	for _, out := range []string{"../secret", "..%2fsecret", "users/../../secret"} {
		if res := h.Call("api_get", map[string]any{"endpoint": out}); strings.HasSuffix(res.Output, "secret") {
			t.Errorf("%s leads out: %q", out, res.Output)
		}
	}
	h.Refuses("api_get", map[string]any{"endpoint": "http://192.0.2.1/"}, tool.InvalidArguments, "not a path")
	h.Refuses("api_get", map[string]any{"endpoint": "//192.0.2.1/x"}, tool.NotFound)
	h.Refuses("custom_api_call", map[string]any{"endpoint": "users", "data": "{"}, tool.InvalidArguments, "object")
	h.Refuses("custom_api_call", map[string]any{"endpoint": "users", "method": "TRACE"}, tool.InvalidArguments, "TRACE")
}

func TestConfiguration(t *testing.T) {
	h := tooltest.New(t, plugin(), t.TempDir())
	h.Refuses("api_get", map[string]any{"endpoint": "x"}, tool.Unavailable, "base_url")
	for _, bad := range []string{"api.example.com", "ftp://example.com", "https://", "://"} {
		diags := h.Configure(tool.Configuration{Config: json.RawMessage(fmt.Sprintf(`{"base_url":%q}`, bad))})
		if len(diags) != 1 || diags[0].Path[0] != "base_url" {
			t.Errorf("%s: %+v", bad, diags)
		}
	}
}

// TestConformance builds the plugin and checks its conformance to the protocol.
func TestConformance(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "httpapi")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	conformance.Test(t, conformance.Options{Binary: binary, Cases: conformance.Cases{
		Config:     configuration(server(t)),
		BadConfigs: []json.RawMessage{json.RawMessage(`{"base_url":"nowhere"}`)},
		Calls: []conformance.Case{
			{Tool: "api_get", Arguments: json.RawMessage(`{"endpoint":"users/7"}`)},
			{Tool: "api_get", Arguments: json.RawMessage(`{"endpoint":"none"}`), Error: tool.NotFound},
			{Tool: "api_get", Arguments: json.RawMessage(`{"endpoint":"slow"}`), Long: true},
			{Tool: "custom_api_call", Arguments: json.RawMessage(`{"endpoint":"users","data":{"n":1}}`)},
		},
	}})
}
