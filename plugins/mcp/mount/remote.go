package mount

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/net/http/httpguts"

	"toolhost.dev/sdk"
)

// remote returns the HTTP transport to a remote server.
func (m *mount) remote() mcp.Transport {
	return &mcp.StreamableClientTransport{
		Endpoint: m.cfg.URL, MaxEventSize: maxFrame,
		HTTPClient: &http.Client{
			Transport: &headers{set: m.cfg.Headers, base: http.DefaultTransport},
			// The headers can contain secrets for this server only. Therefore all redirects are refused.
			CheckRedirect: func(r *http.Request, _ []*http.Request) error {
				return fmt.Errorf("the server redirects to %s; correct url in the mcp block", r.URL.Redacted())
			},
		},
	}
}

// headers is an HTTP transport that adds headers to every request and limits the size of responses.
type headers struct {
	set  map[string]string
	base http.RoundTripper
}

func (h *headers) RoundTrip(r *http.Request) (*http.Response, error) {
	canceled := canceledIn(r.Context())
	r = r.Clone(r.Context())
	for k, v := range h.set {
		r.Header.Set(k, v)
	}
	res, err := h.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if canceled != nil {
		canceled.tell()
	}
	if res.Header.Get("Content-Type") != "text/event-stream" { // an event stream has no limit as a whole; each of its events is limited instead
		res.Body = &bounded{ReadCloser: res.Body, left: maxFrame}
	}
	return res, nil
}

var errTooLarge = errors.New("the server's answer is larger than the limit of 16 MiB")

// This type is a response body with a size limit. A read after limit bytes returns an error.
type bounded struct {
	io.ReadCloser
	left int
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}

func checkHeaders(set map[string]string) error {
	for _, k := range slices.Sorted(maps.Keys(set)) {
		if !httpguts.ValidHeaderFieldName(k) || !httpguts.ValidHeaderFieldValue(set[k]) {
			return &sdk.ConfigError{Path: []string{"headers"}, Summary: fmt.Sprintf("The header %q cannot be sent", k), Detail: "Use letters, digits and '-' in the name, and a value of one line."}
		}
	}
	return nil
}
