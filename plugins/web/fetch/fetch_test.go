package fetch

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/tooltest"
)

type object = map[string]any

// network is a proxy for tests. It passes every request to one server and refuses hosts that begin with "refused".
type network struct {
	server   *httptest.Server
	requests atomic.Int64
}

func (n *network) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.requests.Add(1)
	switch {
	case strings.HasPrefix(r.Host, "refused"):
		http.Error(w, "toolhost: the host is not listed.", http.StatusForbidden)
	case strings.HasPrefix(r.Host, "unknown"):
		http.Error(w, "toolhost: the name cannot be looked up", http.StatusBadGateway)
	case r.Method == http.MethodConnect:
		there, err := net.Dial("tcp", n.server.Listener.Addr().String())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		here, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			_ = there.Close()
			return
		}
		fmt.Fprint(here, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { _, _ = io.Copy(there, here) }()
		_, _ = io.Copy(here, there)
		_, _ = here.Close(), there.Close()
	default:
		target, _ := url.Parse(n.server.URL)
		(&httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(target) }}).ServeHTTP(w, r)
	}
}

// newHost returns a host with the plugin, whose proxy passes requests to the handler.
func newHost(t *testing.T, h http.HandlerFunc) (*tooltest.Host, *network) {
	t.Helper()
	n := &network{server: httptest.NewServer(h)}
	proxy := httptest.NewServer(n)
	t.Cleanup(proxy.Close)
	t.Cleanup(n.server.Close)
	t.Setenv("HTTPS_PROXY", proxy.URL)
	t.Setenv("NO_PROXY", "*") // the plugin must ignore this variable
	return tooltest.New(t, Plugin(), t.TempDir()), n
}

func serve(kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = io.WriteString(w, body)
	}
}

func dataOf(t *testing.T, res *sdk.Result) (d data) {
	t.Helper()
	if err := json.Unmarshal(res.Data, &d); err != nil {
		t.Fatalf("%v in %s (error %v)", err, res.Data, res.Error)
	}
	return d
}

func TestFormats(t *testing.T) {
	const page = `<html><head><title>A
page</title><style>p{}</style></head><body><nav>menu</nav><main><h1>Hi <b>you</b></h1>
<p>See <a href="../y?q=1">the  link</a>.</p><pre>a
  b</pre><table><tr><th>A<th>B<tr><td>1<td>2</table><script>x()</script></main><footer>foot</footer></body></html>`
	h, _ := newHost(t, serve("text/html", page))
	for format, want := range map[string]string{
		"markdown": "# Hi **you**\n\nSee [the link](http://a.example/y?q=1).\n\n```\na\n  b\n```\n\n| A | B |\n|---|---|\n| 1 | 2 |",
		"text":     "Hi you\nSee the link.\na\n  b\nA B\n1 2",
		"html":     page,
	} {
		res := h.Call("web_fetch", object{"url": "http://a.example/d/p.html#part", "format": format})
		if d := dataOf(t, res); res.Output != want || d.Title != "A page" || res.Title != "A page" || d.Status != 200 || d.URL != "http://a.example/d/p.html" || d.Truncated {
			t.Errorf("%s: %q %+v", format, res.Output, d)
		}
	}
}

// TestTypes checks how the tool shows pages of each media type.
func TestTypes(t *testing.T) {
	var kind, body string
	h, _ := newHost(t, func(w http.ResponseWriter, r *http.Request) { serve(kind, body)(w, r) })
	for _, tc := range []struct{ kind, body, want string }{
		{"text/plain; charset=utf-8", "a <b>", "a <b>"},
		{"application/json", `{"a": "<b>"}`, `{"a": "<b>"}`},
		{"application/problem+json", "{}", "{}"},
		{"text/html; charset=gbk", "<p>\xc4\xe3\xba\xc3</p>", "你好"},
		{"text/html", "<meta charset=shift_jis><p>\x93\xfa\x96{</p>", "日本"},
		{"image/png", "png", "image/png, 3 bytes."},
		{"application/pdf", "pdf", "application/pdf, 3 bytes."},
		{"application/zip", "zip", "has the type application/zip and 3 bytes. web_fetch returns text"},
		{"text/html", "", "The page has no text."},
		{"text/plain; charset=utf-8", "\ufefffirst", "first"},
		{"text/html", "\ufeff<p>first</p>", "first"},
		{"", "plain words", "plain words"},
		{"text/plain", "a\x1b]52;c;x\ab\u009bc\r\nd", "a]52;c;xbc\nd"},
		{";;", "x", "has the type"},
		{"text/html", strings.Repeat("<div>", 1000), "The page cannot be converted: html: open stack of elements exceeds 512 nodes. Use --format html."},
	} {
		kind, body = tc.kind, tc.body
		res := h.Call("web_fetch", object{"url": "http://a.example/"})
		got := res.Output
		if res.Error != nil {
			got = res.Error.Message
		}
		if !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q, want %q", tc.kind, got, tc.want)
		}
		if (len(res.Attachments) == 1) != strings.HasSuffix(tc.want, "bytes.") {
			t.Errorf("%s has the attachments %v", tc.kind, res.Attachments)
		}
	}
}

// TestOffset checks that a call with an offset returns the rest of the page without a new fetch. It also checks that a
// call without an offset fetches the page again.
func TestOffset(t *testing.T) {
	h, n := newHost(t, serve("text/plain", "äbcdefghij"))
	get := func(offset, limit int) *sdk.Result {
		return h.Call("web_fetch", object{"url": "http://a.example/", "offset": offset, "limit": limit})
	}
	for _, tc := range []struct {
		offset, limit int
		want          string
	}{
		{0, 4, "äbcd\n\n[Characters 0 to 4 of 10. Continue with offset 4.]"},
		{4, 4, "efgh\n\n[Characters 4 to 8 of 10. Continue with offset 8.]"},
		{8, 4, "ij"},
	} {
		if res := get(tc.offset, tc.limit); res.Output != tc.want || dataOf(t, res).TotalChars != 10 {
			t.Errorf("%d: %q", tc.offset, res.Output)
		}
	}
	if n.requests.Load() != 1 {
		t.Errorf("%d requests for one page", n.requests.Load())
	}
	if res := get(10, 4); res.Error == nil || !strings.Contains(res.Error.Message, "has 10 characters") {
		t.Errorf("%+v", res)
	}
	get(0, 4)
	if n.requests.Load() != 2 {
		t.Errorf("%d requests after a second fetch", n.requests.Load())
	}
	for i := range maxKept { // fetch other pages until the first page is no longer stored
		h.Call("web_fetch", object{"url": fmt.Sprintf("http://a.example/%d", i)})
	}
	before := n.requests.Load()
	if res := get(4, 4); !strings.HasPrefix(res.Output, "efgh") || n.requests.Load() != before+1 {
		t.Errorf("%q after %d requests", res.Output, n.requests.Load()-before)
	}
}

// TestMaxBody checks a small compressed response that expands to a page above the maximum size. The page must be cut.
func TestMaxBody(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write(bytes.Repeat([]byte("a"), maxBody*4))
	_ = z.Close()
	for kind, want := range map[string]string{"text/plain": "[The page is larger than 5 MiB. The rest is missing.]", "image/png": "is larger than 5 MiB"} {
		h, _ := newHost(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(packed.Bytes())
		})
		res := h.Call("web_fetch", object{"url": "http://a.example/", "offset": maxBody - 10})
		got := res.Output
		if res.Error != nil {
			got = res.Error.Message
		} else if !dataOf(t, res).Incomplete {
			t.Errorf("%s: %s", kind, res.Data)
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %q", kind, got)
		}
	}
}

func TestRedirects(t *testing.T) {
	h, n := newHost(t, func(w http.ResponseWriter, r *http.Request) {
		if to := r.URL.Query().Get("to"); to != "" {
			http.Redirect(w, r, to, http.StatusFound)
			return
		}
		serve("text/plain", "here is "+r.Host)(w, r)
	})
	for to, want := range map[string]string{
		"/p":                     "here is ",
		"http://b.example/p?to=": "The page moved to another host. If it is the right page, call web_fetch with http://b.example/p?to=",
		"http://a.example:81/p":  "moved to another host",
		"ftp://a.example/p":      "moved to another host",
		"http://u:p@a.example/":  "moved to another host",
	} {
		before := n.requests.Load()
		res := h.Call("web_fetch", object{"url": "http://a.example/?to=" + url.QueryEscape(to)})
		got := res.Output
		if res.Error != nil {
			got = res.Error.Message
			if sent := n.requests.Load() - before; sent != 1 {
				t.Errorf("%s: %d requests", to, sent)
			}
		}
		if !strings.Contains(got, want) || strings.Contains(got, "u:p@") {
			t.Errorf("%s: %q", to, got)
		}
	}
	loop, _ := newHost(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusFound) })
	if res := loop.Call("web_fetch", object{"url": "http://a.example/"}); res.Error == nil || !strings.Contains(res.Error.Message, "redirects more than 10 times") {
		t.Errorf("%+v", res.Error)
	}
}

func TestFailures(t *testing.T) {
	h, _ := newHost(t, func(w http.ResponseWriter, r *http.Request) {
		var status int
		_, _ = fmt.Sscanf(r.URL.Path, "/%d", &status)
		http.Error(w, "the reason", status)
	})
	for _, tc := range []struct {
		url  string
		kind tool.Kind
		code int
		want string
	}{
		{"http://a.example/404", tool.NotFound, 404, "a.example answered 404 Not Found. Check the path of the URL. It says: the reason"},
		{"http://a.example/410", tool.NotFound, 410, "Check the path"},
		{"http://a.example/403", tool.ExecutionFailed, 403, "needs a login or refuses programs"},
		{"http://a.example/400", tool.ExecutionFailed, 400, "Use another URL."},
		{"http://a.example/429", tool.Unavailable, 429, "Try again later."},
		{"http://a.example/503", tool.Unavailable, 503, "Try again later."},
		{"http://refused.example/", tool.PermissionDenied, 0, "does not permit refused.example"},
		{"https://refused.example/", tool.PermissionDenied, 0, "does not permit refused.example"},
		{"http://unknown.example/", tool.Unavailable, 0, "the name cannot be looked up"},
		{"https://unknown.example/", tool.Unavailable, 0, "the name cannot be looked up"},
		{"https://a.example/", tool.Unavailable, 0, "a.example could not be reached: "}, // the server does not speak TLS
		{"a.example", tool.InvalidArguments, 0, "does not begin with https:// or http://"},
		{"file:///etc/passwd", tool.InvalidArguments, 0, "does not begin with"},
		{"http:///x", tool.InvalidArguments, 0, "is not a host name"},
		{"http://u:p@a.example/", tool.InvalidArguments, 0, "Remove it; web_fetch sends no credentials."},
		{"http://a。example/", tool.InvalidArguments, 0, "is not a host name in ASCII"},
		{"http://a.example\\@b.example/", tool.InvalidArguments, 0, "is not a URL"},
		{"http://a example/", tool.InvalidArguments, 0, "is not a URL"},
	} {
		res := h.Call("web_fetch", object{"url": tc.url})
		if res.Error == nil || res.Error.Kind != tc.kind || res.Error.Code != tc.code || !strings.Contains(res.Error.Message, tc.want) {
			t.Errorf("%s: %+v, want %s %q", tc.url, res.Error, tc.kind, tc.want)
		}
	}
}

// TestOnlyProxy checks that the plugin makes no connections if the host's proxy is not configured.
func TestOnlyProxy(t *testing.T) {
	s := httptest.NewServer(serve("text/plain", "reached"))
	defer s.Close()
	for _, proxy := range []string{"", "::", "nowhere"} {
		t.Setenv("HTTPS_PROXY", proxy)
		p := Plugin()
		h := tooltest.New(t, p, t.TempDir())
		res := h.Call("web_fetch", object{"url": s.URL})
		if res.Error == nil || res.Error.Kind != tool.PermissionDenied || !strings.Contains(res.Error.Message, `network = ["*"]`) {
			t.Errorf("%q: %+v", proxy, res)
		}
		if got := p.Health(context.Background(), ""); got.Status != tool.Unhealthy {
			t.Errorf("%q: %+v", proxy, got)
		}
	}
}

// TestReadable checks that tables stay tables whatever their cells contain, that links are relative to the base
// element, and that hidden elements and links with scripts are left out.
func TestReadable(t *testing.T) {
	cell := func(content string) string { return "<table><tr><th>A<th>B<tr><td>1<td>" + content + "</table>" }
	row := func(content string) string { return "| A | B |\n|---|---|\n| 1 | " + content + " |" }
	for _, tc := range []struct{ page, want string }{
		{cell("3<br>(0 turns off)"), row("3<br />(0 turns off)")},
		{cell("<p>a<p>b"), row("a<br />b")},
		{cell("<ul><li>a<li>b <b>c</b></ul>"), row("• a<br />• b **c**")},
		{cell("<ol><li>a<li>b</ol>d"), row("1\\. a<br />2\\. b<br />d")},
		{cell("<pre>x = 1\ny = 2\n</pre>"), row("x = 1<br />y = 2")},
		{cell("<h3>a</h3>b"), row("**a**<br />b")},
		{cell("a<hr>b"), row("a<br />b")},
		{cell("<blockquote>a</blockquote>"), row("a")},
		{cell("a | b"), row(`a \| b`)},
		{`<base href="/v2/"><p><a href="x">l</a></p>`, "[l](http://a.example/v2/x)"},
		{`<base target="_top"><base href="http://b.example/y/"><a href="x">l</a>`, "[l](http://b.example/y/x)"},
		{`<base href="javascript:x"><a href="x">l</a>`, "[l](http://a.example/d/x)"},
		{`a<p hidden>b</p><div style="color:red; display : none">c</div><span style="visibility:hidden">d</span><dialog>e</dialog>f`, "af"},
		{`<p style="font-size:0px">a</p><p style="opacity:0">b</p><p style="opacity:0.5;font-size:10px">c</p><dialog open>d</dialog>`, "c\n\nd"},
		{`<a href="javascript:alert(1)">a</a> <a href=" jAva	script:x">b</a> <a href="data:text/html,x">c</a> <a href="/y">d</a>`, "a b c [d](http://a.example/y)"},
	} {
		if out, _, err := convert(tc.page, "http://a.example/d/p.html", formatMarkdown); err != nil || out != tc.want {
			t.Errorf("%s: %q %v, wanted %q", tc.page, out, err, tc.want)
		}
	}
}

func FuzzConvert(f *testing.F) {
	f.Add("<main><p>a<b>b</b><pre>c</pre><ul><li>d")
	f.Add("<table><tr><td colspan=3>a<tr><th>b</table><a href=':'>c</a>")
	f.Fuzz(func(t *testing.T, page string) {
		for _, format := range []string{formatMarkdown, formatText} {
			if _, _, err := convert(page, "http://a.example/", format); err != nil && strings.Contains(err.Error(), "the converter failed") {
				t.Errorf("%q: %v", page, err)
			}
		}
	})
}
