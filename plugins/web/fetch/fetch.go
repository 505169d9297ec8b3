package fetch

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
	"golang.org/x/sync/semaphore"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
)

const (
	// maxBody limits the size of a page, after decompression.
	maxBody = 5 << 20
	// maxRedirects limits the redirects of one call.
	maxRedirects = 10
	// maxReason limits how much of an error text of the proxy or the server is quoted, in bytes.
	maxReason = 2000
)

// page is a fetched page. Its fields are not modified after the fetch.
type page struct {
	url         string // address of the page after redirects
	status      int
	contentType string
	title       string
	text        string
	chars       int // length of the text in characters
	incomplete  bool
	attachment  *sdk.Attachment // content of an image or document; nil for text
}

// fetcher fetches pages through a proxy. It is safe for concurrent use.
type fetcher struct {
	client *http.Client // nil if the host provides no proxy
	kept   pages
	// converting limits how many pages are converted at the same time. Converting one page can need hundreds of
	// megabytes.
	converting *semaphore.Weighted
}

// movedError is a redirect that the plugin does not follow.
type movedError struct{ to *url.URL }

func (e *movedError) Error() string { return "the page moved to " + e.to.String() }

var errRedirects = errors.New("too many redirects")

// deniedError is the error of a connection that the operator's list does not permit.
type deniedError struct{}

func (e *deniedError) Error() string { return "the proxy refused the connection" }

// denial returns the error for a refused connection. The host adds the reason and the remedy to this error, because
// only the host's proxy knows them.
func denial(target *url.URL) error {
	return sdk.Errorf(tool.PermissionDenied, "The operator's list of hosts does not permit %s.", target.Host)
}

// newFetcher returns a fetcher that connects only through the proxy with the given URL. It ignores the variable
// NO_PROXY, because a direct connection could reach the internal network.
func newFetcher(proxy string) *fetcher {
	via, err := url.Parse(proxy)
	if err != nil || via.Host == "" {
		return new(fetcher)
	}
	transport := &http.Transport{
		Proxy:                  http.ProxyURL(via),
		TLSHandshakeTimeout:    15 * time.Second,
		ResponseHeaderTimeout:  30 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		MaxIdleConns:           8,
		IdleConnTimeout:        30 * time.Second,
		ForceAttemptHTTP2:      true,
		// If the proxy refuses a connection, the body of its response contains the reason. By default, the transport
		// discards this body. Therefore this function reads it.
		OnProxyConnectResponse: func(_ context.Context, _ *url.URL, _ *http.Request, r *http.Response) error {
			if r.StatusCode == http.StatusOK {
				return nil
			}
			return refusal(r)
		},
	}
	return &fetcher{
		converting: semaphore.NewWeighted(2), client: &http.Client{Transport: transport, CheckRedirect: checkRedirect},
	}
}

func (f *fetcher) close() {
	if f.client != nil {
		f.client.CloseIdleConnections()
	}
}

// ready returns an error if the plugin has no proxy.
func (f *fetcher) ready() error {
	if f.client != nil {
		return nil
	}
	return sdk.Errorf(tool.PermissionDenied, `web_fetch connects only through the host's proxy, and network = true starts none. `+
		`In the sandbox block of plugin "web", the operator replaces it by network = ["*"], which permits every public host, or by a list such as ["go.dev", "*.python.org"].`)
}

// checkRedirect permits redirects within a host, including redirects from http to https. It refuses a redirect to
// another host. The model must call the tool again with the new address, because the policy must check that address.
func checkRedirect(r *http.Request, via []*http.Request) error {
	from := via[len(via)-1].URL
	switch {
	case len(via) > maxRedirects:
		return errRedirects
	case r.URL.Hostname() != from.Hostname(), r.URL.Port() != from.Port(),
		r.URL.Scheme != from.Scheme && r.URL.Scheme != "https", r.URL.User != nil:
		return &movedError{r.URL}
	}
	return nil
}

// hostRE matches only host names that the policy and the proxy interpret in the same way. A name with other characters
// has several spellings, so the two could interpret it differently.
var hostRE = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?\.?$`)

// parse parses and checks the address of a page.
func parse(text string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(text))
	if err != nil {
		return nil, sdk.Errorf(tool.InvalidArguments, "%q is not a URL: %w. Write it as https://example.org/page.", text, errors.Unwrap(err))
	}
	_, notAddress := netip.ParseAddr(u.Hostname())
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, sdk.Errorf(tool.InvalidArguments, "%q does not begin with https:// or http://. Write the whole URL, such as https://example.org/page.", text)
	case u.User != nil:
		return nil, sdk.Errorf(tool.InvalidArguments, "The URL contains a user name. Remove it; web_fetch sends no credentials.")
	case notAddress != nil && !hostRE.MatchString(u.Hostname()):
		return nil, sdk.Errorf(tool.InvalidArguments, "%q is not a host name in ASCII. Write a name in another script in its xn-- form.", u.Hostname())
	}
	u.Host = strings.ToLower(u.Host)
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

// get fetches a page.
func (f *fetcher) get(ctx context.Context, target *url.URL, format string) (*page, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return nil, sdk.Errorf(tool.InvalidArguments, "The URL cannot be requested: %w. Correct it.", err)
	}
	r.Header.Set("User-Agent", "toolhost-web/0.1")
	r.Header.Set("Accept", "text/markdown, text/html;q=0.9, text/plain;q=0.8, */*;q=0.5")
	resp, err := f.client.Do(r)
	if err != nil {
		return nil, failure(ctx, target, err)
	}
	defer resp.Body.Close() //nolint:errcheck // the body is only read
	if resp.StatusCode >= http.StatusBadRequest {
		return nil, rejected(target, resp)
	}
	p := &page{url: resp.Request.URL.String(), status: resp.StatusCode}
	if err := f.read(ctx, p, resp, format); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, err
	}
	return p, nil
}

// failure returns the error of a request without a response.
func failure(ctx context.Context, target *url.URL, err error) error {
	var moved *movedError
	var denied *deniedError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &moved):
		return sdk.Errorf(tool.ExecutionFailed, "The page moved to another host. If it is the right page, call web_fetch with %s", moved.to.Redacted())
	case errors.As(err, &denied):
		return denial(target)
	case errors.Is(err, errRedirects):
		return sdk.Errorf(tool.ExecutionFailed, "%s redirects more than %d times. Use another URL.", target.Host, maxRedirects)
	}
	var cause *url.Error
	if errors.As(err, &cause) {
		err = cause.Err
	}
	return sdk.Errorf(tool.Unavailable, "%s could not be reached: %w. Check the URL, or try again later.", target.Host, err)
}

// refusal returns the error in the proxy's answer.
func refusal(r *http.Response) error {
	if r.StatusCode == http.StatusForbidden {
		return new(deniedError)
	}
	return errors.New(reason(r))
}

// rejected returns the error for a response with a status of at least 400. For an http URL, the response can come from
// the proxy instead of the server. A response from the proxy begins with the program name "toolhost".
func rejected(target *url.URL, r *http.Response) error {
	text := reason(r)
	if target.Scheme == "http" && strings.HasPrefix(text, "toolhost: ") {
		if r.StatusCode == http.StatusForbidden {
			return denial(target)
		}
		return sdk.Errorf(tool.Unavailable, "%s. Check the URL, or try again later.", strings.TrimSuffix(text, "."))
	}
	kind, remedy := tool.ExecutionFailed, "Use another URL."
	switch {
	case r.StatusCode == http.StatusNotFound || r.StatusCode == http.StatusGone:
		kind, remedy = tool.NotFound, "Check the path of the URL."
	case r.StatusCode == http.StatusUnauthorized || r.StatusCode == http.StatusForbidden:
		remedy = "The page needs a login or refuses programs; use another source."
	case r.StatusCode == http.StatusTooManyRequests || r.StatusCode >= http.StatusInternalServerError:
		kind, remedy = tool.Unavailable, "Try again later."
	}
	message := fmt.Sprintf("%s answered %s. %s", target.Host, r.Status, remedy)
	if media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); text != "" && media != "text/html" {
		message += " It says: " + text
	}
	return sdk.Errorf(kind, "%s", message).WithCode(r.StatusCode)
}

// reason returns the beginning of a response's text on one line.
func reason(r *http.Response) string {
	b, _ := io.ReadAll(io.LimitReader(r.Body, maxReason)) // ignore the error, because the beginning of the text is still useful
	return strings.ToValidUTF8(strings.Join(strings.Fields(string(b)), " "), "")
}

// read reads the body of a response into p.
func (f *fetcher) read(ctx context.Context, p *page, r *http.Response, format string) error {
	limited := &io.LimitedReader{R: r.Body, N: maxBody + 1}
	body := bufio.NewReaderSize(limited, 1024)
	p.contentType = r.Header.Get("Content-Type")
	if p.contentType == "" {
		head, _ := body.Peek(512) // ignore the error: a short body is normal, and a read error occurs again in io.ReadAll
		p.contentType = http.DetectContentType(head)
	}
	media, _, err := mime.ParseMediaType(p.contentType)
	if err != nil {
		media = strings.ToLower(strings.TrimSpace(strings.Split(p.contentType, ";")[0]))
	}
	isText := textual(media)
	if !isText && !attachable(media) {
		return sdk.Errorf(tool.ExecutionFailed, "%s has the type %s%s. web_fetch returns text, images and PDF files. A command such as curl can download other files, if the sandbox of bash permits the host.", p.url, media, length(r))
	}
	var reader io.Reader = body
	if isText {
		if reader, err = charset.NewReader(body, p.contentType); err != nil && !errors.Is(err, io.EOF) {
			return unreadable(err)
		}
		if errors.Is(err, io.EOF) { // io.EOF means that the body is empty
			reader = strings.NewReader("")
		}
	}
	b, err := io.ReadAll(reader)
	if err != nil {
		return unreadable(err)
	}
	p.incomplete = limited.N <= 0
	switch {
	case !isText && p.incomplete:
		return sdk.Errorf(tool.ExecutionFailed, "%s is larger than %d MiB%s. Use a smaller version of it.", p.url, maxBody>>20, length(r))
	case !isText:
		kind := "file"
		if strings.HasPrefix(media, "image/") {
			kind = "image"
		}
		p.attachment = &sdk.Attachment{Type: kind, MediaType: media, Content: b}
		return nil
	}
	text := strings.TrimPrefix(strings.ToValidUTF8(string(b), string(utf8.RuneError)), "\ufeff")
	if media == "text/html" || media == "application/xhtml+xml" {
		if err := f.converting.Acquire(ctx, 1); err != nil {
			return context.Cause(ctx)
		}
		text, p.title, err = convert(text, p.url, format)
		f.converting.Release(1)
		if err != nil {
			return sdk.Errorf(tool.ExecutionFailed, "The page cannot be converted: %w. Use --format html.", err)
		}
	}
	text = strings.Map(printable, text)
	p.text, p.chars = text, utf8.RuneCountInString(text)
	return nil
}

// printable drops control characters, which have no meaning in a page.
func printable(r rune) rune {
	if r == '\r' || unicode.IsControl(r) && r != '\n' && r != '\t' {
		return -1
	}
	return r
}

func unreadable(err error) error {
	return sdk.Errorf(tool.Unavailable, "The page could not be read to its end: %w. Try again.", err)
}

// length returns the size of a response as text that is inserted into a message.
func length(r *http.Response) string {
	if r.ContentLength < 0 {
		return ""
	}
	return fmt.Sprintf(" and %d bytes", r.ContentLength)
}

// textual reports whether a media type is text.
func textual(media string) bool {
	kind, sub, _ := strings.Cut(media, "/")
	switch {
	case kind == "text", strings.HasSuffix(sub, "+json"), strings.HasSuffix(sub, "+xml") && kind != "image":
		return true
	case media == "image/svg+xml":
		return true
	case kind != "application":
		return false
	}
	switch sub {
	case "json", "xml", "javascript", "x-javascript", "ecmascript", "yaml", "x-yaml", "toml", "x-sh", "x-ndjson",
		"jsonl", "sql", "graphql", "x-www-form-urlencoded":
		return true
	}
	return false
}

// attachable reports whether models can read files of a media type as attachments.
func attachable(media string) bool {
	switch media {
	case "image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf":
		return true
	}
	return false
}
