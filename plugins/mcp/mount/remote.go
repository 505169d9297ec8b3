package mount

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/net/http/httpguts"

	"toolhost.dev/sdk"
)

// remote returns the HTTP transport to a remote server. The argument "h" sends the requests of the transport.
func (m *mount) remote(h *headers) mcp.Transport {
	return &mcp.StreamableClientTransport{
		Endpoint: m.cfg.URL, MaxEventSize: maxFrame,
		HTTPClient: &http.Client{
			Transport: h,
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
	// state is the plugin's state directory. The last element of its path is the name of the field.
	state string
	// token is the file to which the host writes the access token of the operator's login. The name depends on the URL.
	token string
	// denied is the error about the last request that the server refused because of its token.
	denied atomic.Pointer[error]
	// versions lists the revisions of the protocol that the server speaks. It is set when the server refuses a
	// revision.
	versions atomic.Pointer[[]string]
	// announced contains the capabilities that the server announced.
	announced announcement
}

// versionsError means that the server refused the requested revision of the protocol. The field "spoken" lists the
// revisions that the server speaks.
type versionsError struct{ spoken []string }

func (e *versionsError) Error() string {
	return fmt.Sprintf("the server speaks only the revisions %s of MCP, and toolhost speaks %s and older ones; use a server or a toolhost with a common revision", strings.Join(e.spoken, ", "), statelessVersion)
}

// keepVersions stores the revisions that a server names when it refuses the revision of a request. The SDK drops these
// names if the answer has no ID.
func (h *headers) keepVersions(res *http.Response) {
	if res.StatusCode != http.StatusBadRequest {
		return
	}
	body, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorData)) // ignore the error: the SDK gets it, too
	res.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), res.Body), res.Body}
	var m struct {
		Error struct {
			Code int64                              `json:"code"`
			Data mcp.UnsupportedProtocolVersionData `json:"data"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &m) == nil && m.Error.Code == mcp.CodeUnsupportedProtocolVersion &&
		len(m.Error.Data.Supported) > 0 {
		spoken := m.Error.Data.Supported[:min(len(m.Error.Data.Supported), maxScopes)]
		h.versions.Store(&spoken)
	}
}

func (m *mount) headers() *headers {
	return &headers{set: m.cfg.Headers, base: http.DefaultTransport, state: m.state, token: m.tokenFile()}
}

// tokenFile returns the file with the access token for the server. The host computes the name in the same way.
func (m *mount) tokenFile() string {
	if m.state == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(m.cfg.URL))
	return filepath.Join(m.state, "access-token-"+hex.EncodeToString(sum[:16]))
}

// login adds the access token of the operator's login to a request. The file is read each time, because the host
// replaces it when the token is renewed.
func (h *headers) login(r *http.Request) {
	if h.token == "" {
		return
	}
	token, err := os.ReadFile(h.token)
	// Without a login, send the request unchanged. If the server requires a login, it refuses the request.
	if err != nil || !httpguts.ValidHeaderFieldValue(string(token)) {
		return
	}
	r.Header.Set("Authorization", "Bearer "+string(token))
}

// refused returns an error with a remedy if the server refuses a request because of its token. The argument "own"
// reports whether the token is from the configuration.
func (h *headers) refused(res *http.Response, own bool) error {
	field := filepath.Base(h.state) // the host names the directory after the field
	switch {
	case res.StatusCode == http.StatusUnauthorized && own:
		return errors.New("the server refuses the header Authorization of the mcp block; correct it, or remove it and log in: toolhost mcp login " + field)
	case res.StatusCode == http.StatusUnauthorized:
		return errors.New("the server needs a login; run: toolhost mcp login " + field)
	case res.StatusCode == http.StatusForbidden &&
		strings.Contains(res.Header.Get("WWW-Authenticate"), "insufficient_scope"):
		return errors.New("the login at the server lacks a scope; run: toolhost mcp login " + field + missingScopes(res.Header))
	}
	return nil
}

// plainScope matches scopes that a person can paste into a shell. Servers choose the names of scopes, so a name can
// contain any text.
var plainScope = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9:._/-]{0,99}$`)

// maxScopes is the maximum number of scopes, or of revisions, in a message.
const maxScopes = 10

// missingScopes returns command-line options for a login that requests the scopes named in a server's response.
func missingScopes(h http.Header) (options string) {
	challenges, err := oauthex.ParseWWWAuthenticate(h.Values("WWW-Authenticate"))
	if err != nil {
		return ""
	}
	for _, c := range challenges {
		for i, scope := range strings.Fields(c.Params["scope"]) {
			if i < maxScopes && plainScope.MatchString(scope) {
				options += " --add-scope " + scope
			}
		}
	}
	return options
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
		h.denied.Store(&err)
		return nil, errors.Join(err, res.Body.Close())
	}
	if canceled != nil {
		canceled.tell()
	}
	h.keepVersions(res)
	stream := isStream(res)
	if !stream { // an event stream has no limit as a whole; each of its events is limited instead
		if res.ContentLength > maxFrame {
			return nil, errors.Join(fmt.Errorf("the server's answer has %d bytes, and the limit is %d MiB", res.ContentLength, maxFrame>>20), res.Body.Close())
		}
		res.Body = &bounded{ReadCloser: res.Body, left: maxFrame}
	}
	res.Body = newFoldingBody(h.announced.watchBody(res.Body), stream)
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
			return &sdk.ConfigError{
				Path: []string{"headers"}, Summary: fmt.Sprintf("The header %q cannot be sent", k), Detail: "Use letters, digits and '-' in the name, and a value of one line.",
			}
		}
	}
	return nil
}
