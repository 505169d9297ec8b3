package mount

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/net/http/httpguts"

	"toolhost.dev/sdk"
)

// remote returns the HTTP transport to a remote server.
func (m *mount) remote() mcp.Transport {
	return &mcp.StreamableClientTransport{
		Endpoint: m.cfg.URL, MaxEventSize: maxFrame,
		HTTPClient: &http.Client{
			Transport: &headers{set: m.cfg.Headers, base: http.DefaultTransport, state: m.state, token: m.tokenFile()},
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
	// state is the plugin's state directory. Its name is the name of the field.
	state string
	// token is the file to which the host writes the access token of the operator's login. The name depends on the URL.
	token string
}

// tokenFile returns the file with the access token for the server. The host computes the name in the same way.
func (m *mount) tokenFile() string {
	if m.state == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(m.cfg.URL))
	return filepath.Join(m.state, "access-token-"+hex.EncodeToString(sum[:16]))
}

// login adds the access token of the operator's login to a request. The file is read each time, because the host replaces
// it when the token is renewed.
func (h *headers) login(r *http.Request) {
	if h.token == "" {
		return
	}
	token, err := os.ReadFile(h.token)
	if err != nil || !httpguts.ValidHeaderFieldValue(string(token)) { // without a login, the server answers if it needs one
		return
	}
	r.Header.Set("Authorization", "Bearer "+string(token))
}

// refused returns an error with a remedy if the server refuses a request because of its token. The argument own reports
// whether the token is from the configuration.
func (h *headers) refused(res *http.Response, own bool) error {
	field := filepath.Base(h.state) // the host names the directory after the field
	switch {
	case res.StatusCode == http.StatusUnauthorized && own:
		return errors.New("the server refuses the header Authorization of the mcp block; correct it, or remove it and log in: toolhost mcp login " + field)
	case res.StatusCode == http.StatusUnauthorized:
		return errors.New("the server needs a login; run: toolhost mcp login " + field)
	case res.StatusCode == http.StatusForbidden && strings.Contains(res.Header.Get("WWW-Authenticate"), "insufficient_scope"):
		return errors.New("the login at the server lacks a scope; log in again: toolhost mcp login " + field)
	}
	return nil
}

func (h *headers) RoundTrip(r *http.Request) (*http.Response, error) {
	canceled := canceledIn(r.Context())
	r = r.Clone(r.Context())
	for k, v := range h.set {
		r.Header.Set(k, v)
	}
	own := r.Header.Get("Authorization") != ""
	if !own {
		h.login(r)
	}
	res, err := h.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if err := h.refused(res, own); err != nil {
		return nil, errors.Join(err, res.Body.Close())
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
